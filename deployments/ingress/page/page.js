// The page: wires form, player, reading, report, recent requests and comparison together.

import { FORMATS, RequestError, analysis, answerRate, fileName, mediaType, samplesOf, speech, timestamps, toldBy, useKey, voices, whyNotReady } from "./api.js";
import { Comparison } from "./compare.js";
import { Controls } from "./controls.js";
import { byId, make, save } from "./dom.js";
import { showError } from "./errors.js";
import { Pictures } from "./pictures.js";
import { Player } from "./player.js";
import { applyTexts, currentLanguage, examples, loadTexts, switchLanguage, switchTheme, t } from "./preferences.js";
import { Reading } from "./reading.js";
import { Recent } from "./recent.js";
import { Report } from "./report.js";

const RECONNECT_MS = 2000;
const SUBTITLES = ["srt", "vtt"];

class Page {
  player = new Player();
  pictures = new Pictures(this.player);
  reading = new Reading((seconds) => this.#jump(seconds));
  report = new Report();
  #abort = null;
  #spoken = null;
  #subtitles = null;
  #status = null;
  #isUnconnected = false;

  constructor() {
    this.comparison = new Comparison({
      fields: () => this.controls.read(),
      voice: () => this.controls.voice,
      isFresh: () => this.controls.isFresh,
      say: (key, values) => this.#say(key, values),
      report: (told) => this.report.take(told),
      hush: () => this.#silence(),
    });
    this.controls = new Controls(() => this.comparison.suggest(byId("input").value));
    this.recent = new Recent((fields) => this.#restore(fields));
    this.#listen();
    this.#translate();
    this.#connect();
  }

  #listen() {
    byId("form").addEventListener("submit", (event) => { event.preventDefault(); this.speak(); });
    byId("stop").addEventListener("click", () => this.stop());
    byId("analyse").addEventListener("click", () => this.#read());
    byId("play").addEventListener("click", () => this.#toggle());
    byId("language").addEventListener("click", () => { switchLanguage(); this.#translate(); });
    byId("theme").addEventListener("click", () => { switchTheme(); this.pictures.redraw(); this.comparison.translate(); });
    byId("key").addEventListener("change", ({ target }) => { useKey(target.value.trim()); this.#connect(); });
    document.addEventListener("keydown", (event) => this.#key(event));
    this.player.addEventListener("change", () => this.#playerChanged());
    this.player.addEventListener("ended", () => this.#say("status.done", { seconds: this.player.duration.toFixed(2) }));
  }

  /** Whether a request is under way. */
  get isBusy() {
    return Boolean(this.#abort);
  }

  /** Speaks what the form says; sound starts with the first samples. */
  async speak() {
    this.stop();
    const fields = this.controls.read();
    showError(byId("error"), null);
    if (!fields.input.trim()) {
      this.#fail(new RequestError("empty", "", { param: "input" }));
      byId("input").focus();
      return;
    }
    const abort = this.#begin();
    this.player.begin(answerRate(this.controls.voice));
    this.#spoken = fields;
    this.#say("status.waiting");
    try {
      await this.#stream(fields, abort.signal, performance.now());
      this.recent.add(fields);
      await this.#time(fields, abort.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.player.finish();
      this.#fail(error);
    } finally {
      this.#end(abort);
    }
  }

  /** Falls silent and gives up what is not finished. */
  stop() {
    const wasBusy = this.#abort || this.player.state === "playing" || this.player.state === "paused";
    this.#abort?.abort();
    this.#abort = null;
    this.player.stop();
    this.comparison.stop();
    if (wasBusy) this.#say("status.stopped");
    this.#playerChanged();
  }

  async #stream(fields, signal, started) {
    const isFresh = this.controls.isFresh;
    const understood = this.#analyse(fields, signal).catch(() => {}); // what is wrong with the text, the speech tells too
    const body = { ...fields, response_format: "pcm", sample_rate: this.player.rate, stream: true };
    const response = await speech(body, { signal, isFresh });
    const told = { ...toldBy(response), title: ["report.speech", {}], isStream: true };
    for await (const samples of samplesOf(response)) {
      told.firstMs ??= performance.now() - started;
      if (!this.player.samples.length) this.#say("status.speaking");
      this.player.push(samples);
    }
    this.player.finish();
    const bytes = 2 * this.player.samples.length;
    this.report.take({ ...told, wholeMs: performance.now() - started, seconds: this.player.duration, bytes });
    await understood;
  }

  async #analyse(fields, signal) {
    this.reading.clear();
    this.reading.take(await analysis(fields, signal));
  }

  /** Asks where the words lie, now that the segments are in the cache. Without it, segments are estimated. */
  async #time(fields, signal) {
    try {
      const timed = await timestamps({ ...fields, response_format: "opus" }, signal);
      if (!timed) return;
      this.#subtitles = timed.subtitles;
      this.reading.time(timed);
      this.#showDownloads();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      // the speech itself is there: nothing to tell
    }
  }

  async #read() {
    this.stop();
    const abort = this.#begin();
    showError(byId("error"), null);
    try {
      await this.#analyse(this.controls.read(), abort.signal);
      this.#say("status.read");
    } catch (error) {
      if (error.name !== "AbortError") this.#fail(error);
    } finally {
      this.#end(abort);
    }
  }

  async #download(format) {
    if (SUBTITLES.includes(format)) {
      save(new Blob([this.#subtitles[format]], { type: "text/plain" }), fileName(this.#spoken, format));
      return;
    }
    this.#say("status.downloading", { format });
    const started = performance.now();
    try {
      const response = await speech({ ...this.#spoken, response_format: format, stream: false });
      const blob = new Blob([await response.arrayBuffer()], { type: mediaType(format) });
      const name = fileName(this.#spoken, format);
      save(blob, name);
      const seconds = Number(response.headers.get("x-audio-duration-ms")) / 1000;
      this.report.take({ ...toldBy(response), title: ["report.download", { format }], wholeMs: performance.now() - started, seconds, bytes: blob.size });
      this.#say("status.downloaded", { name });
    } catch (error) {
      this.#fail(error);
    }
  }

  #begin() {
    this.#abort = new AbortController();
    this.#subtitles = null;
    this.#playerChanged();
    return this.#abort;
  }

  #end(abort) {
    if (this.#abort === abort) this.#abort = null;
    this.#playerChanged();
  }

  #silence() {
    this.#abort?.abort();
    this.#abort = null;
    this.player.stop();
  }

  #toggle() {
    this.comparison.stop();
    if (this.player.state === "playing") this.player.pause();
    else this.player.play();
    this.#say(this.player.state === "playing" ? "status.speaking" : "status.paused");
  }

  #jump(seconds) {
    this.player.seek(seconds);
    this.player.play();
  }

  #restore(fields) {
    this.controls.write(fields);
    byId("input").focus();
    byId("form").scrollIntoView({ block: "nearest" });
  }

  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.speak();
    } else if (event.key === "Escape") {
      this.stop();
    }
  }

  #fail(error) {
    showError(byId("error"), error);
    this.#say("status.failed");
  }

  #say(key, values = {}) {
    this.#status = [key, values];
    byId("status").textContent = t(key, values);
    byId("status").dataset.state = key.slice(7);
  }

  #playerChanged() {
    const { state, samples } = this.player;
    byId("player").dataset.state = state;
    const isOn = state === "playing" || state === "paused";
    byId("stop").disabled = !(this.#abort || isOn);
    byId("form").toggleAttribute("data-busy", Boolean(this.#abort) || isOn);
    byId("play").disabled = !samples.length;
    byId("play").setAttribute("aria-label", t(state === "playing" ? "pause" : "play"));
    for (const button of byId("downloads").querySelectorAll("button")) button.disabled = !samples.length;
    this.#animate();
  }

  /** Moves the marks as long as there is sound. */
  #animate() {
    const { state, position, duration, isWhole } = this.player;
    const isInside = state !== "empty" && position < duration && (state !== "ready" || position > 0);
    this.pictures.follow();
    this.reading.follow(isInside ? position : null, duration, isWhole);
    if (state !== "playing" || this.isAnimated) return;
    this.isAnimated = true;
    requestAnimationFrame(() => { this.isAnimated = false; this.#animate(); });
  }

  #showDownloads() {
    const formats = this.#subtitles ? [...FORMATS, ...SUBTITLES] : FORMATS;
    const button = (format) => make("button", { type: "button", class: "chip", "data-format": format, "aria-label": t("downloadAs", { format }), click: () => this.#download(format) }, format.toUpperCase());
    byId("downloads").replaceChildren(make("span", { class: "hint" }, t("download")), ...formats.map(button));
    this.#playerChanged();
  }

  #translate() {
    applyTexts();
    byId("language").textContent = t("otherLanguage");
    byId("language").lang = currentLanguage() === "zh" ? "en" : "zh";
    byId("language").setAttribute("aria-label", t("otherLanguageLabel"));
    byId("speak-key").textContent = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";
    this.controls.translate();
    for (const part of [this.reading, this.report, this.recent]) part.show();
    this.comparison.translate();
    this.#showDownloads();
    this.#showService();
    if (this.#status) this.#say(...this.#status);
  }

  /** Gets the voices, as often as it takes. */
  async #connect() {
    const why = await whyNotReady();
    try {
      this.controls.offer(await voices());
      if (this.#isUnconnected) showError(byId("error"), null);
      this.#isUnconnected = false;
    } catch (error) {
      if (!this.#isUnconnected) this.#fail(error);
      this.#isUnconnected = true;
      if (error.status === 401) return;
    }
    this.#showService(why || this.#isUnconnected ? "waiting" : "ready", why);
    if (why || this.#isUnconnected) setTimeout(() => this.#connect(), RECONNECT_MS);
  }

  #showService(state = byId("service").dataset.state, why = byId("service").title) {
    byId("service").dataset.state = state;
    byId("service").title = why;
    byId("service-text").textContent = t(`service.${state}`);
  }
}

await loadTexts();
if (!byId("input").value) byId("input").value = examples()[0].text;
globalThis.sambert = new Page();
