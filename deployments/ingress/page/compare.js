// One sentence in every emotion of the voice, side by side.

import { answerRate, samplesOf, speech, toldBy } from "./api.js";
import { byId, make } from "./dom.js";
import { showError } from "./errors.js";
import { drawWave } from "./pictures.js";
import { Player } from "./player.js";
import { emotionName, examples, t } from "./preferences.js";
import { cacheTag } from "./report.js";

const FIRST_SENTENCE = /^[^。！？!?\n]*[。！？!?]?/;
const MAX_CHARS = 60;

/** The comparison. `page` gives: fields(), voice(), isFresh(), say(key, values), report(told), hush(). */
export class Comparison {
  player = new Player();
  #page;
  #cards = [];
  #queue = [];
  #playing = null;
  #abort = null;
  #isOwnSentence = false;

  constructor(page) {
    this.#page = page;
    byId("compare-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    byId("play-all").addEventListener("click", () => this.#playAll());
    byId("sentence").addEventListener("input", ({ target }) => { this.#isOwnSentence = Boolean(target.value.trim()); });
    this.player.addEventListener("change", () => this.#mark());
    this.player.addEventListener("ended", () => this.#next());
  }

  /** What was heard of each emotion: [{emotion, samples, rate}]. */
  get heard() {
    return this.#cards.filter(({ samples }) => samples).map(({ emotion, samples, rate }) => ({ emotion, samples, rate }));
  }

  /** Follows the text of the page, as long as no other sentence was typed. */
  suggest(text) {
    if (this.#isOwnSentence) return;
    const plain = text.replace(/<[^<>]*>/g, "").trim();
    byId("sentence").value = (FIRST_SENTENCE.exec(plain)?.[0] || examples()[0].text).slice(0, MAX_CHARS);
  }

  /** Falls silent and gives up what is not finished. */
  stop() {
    this.#queue = [];
    this.player.stop();
    this.#abort?.abort();
    this.#abort = null;
    byId("compare").disabled = false;
  }

  /** Speaks the sentence in every emotion. */
  async run() {
    this.#page.hush();
    this.stop();
    const abort = new AbortController();
    this.#abort = abort;
    byId("compare").disabled = true;
    byId("play-all").disabled = true;
    const emotions = this.#page.voice()?.emotions ?? [];
    this.#cards = (emotions.length ? emotions : ["neutral"]).map((emotion) => this.#card(emotion));
    byId("compared").replaceChildren(...this.#cards.map(({ item }) => item));
    showError(byId("compare-error"), null);
    try {
      for (const card of this.#cards) await this.#fill(card, abort.signal);
      this.#page.say("status.compared", { count: this.#cards.length });
      byId("play-all").disabled = false;
    } catch (error) {
      if (error.name === "AbortError") return;
      showError(byId("compare-error"), error);
      this.#page.say("status.failed");
    } finally {
      if (this.#abort === abort) this.stop();
    }
  }

  /** Shows the names again, in the language of the page. */
  translate() {
    for (const { emotion, name, button } of this.#cards) {
      name.textContent = emotionName(emotion);
      button.setAttribute("aria-label", t("playEmotion", { emotion: emotionName(emotion) }));
    }
    this.#cards.forEach(({ samples, canvas }) => samples && drawWave(canvas, samples));
  }

  #card(emotion) {
    const name = make("b", {}, emotionName(emotion));
    const about = make("small", {}, "…");
    const canvas = make("canvas", { class: "wave", "aria-hidden": "true" });
    const card = { emotion, name, about, canvas, samples: null, rate: 0 };
    const label = t("playEmotion", { emotion: emotionName(emotion) });
    card.button = make("button", { type: "button", class: "take", "aria-label": label, disabled: true, click: () => this.#toggle(card) }, name, canvas, about);
    card.item = make("li", { "data-emotion": emotion }, card.button);
    return card;
  }

  async #fill(card, signal) {
    this.#page.say("status.comparing", { emotion: emotionName(card.emotion) });
    const { emotion: _, ...fields } = this.#page.fields();
    card.rate = answerRate(this.#page.voice());
    const isPlain = !this.#page.voice()?.emotions.length;
    const body = { ...fields, input: byId("sentence").value, response_format: "pcm", sample_rate: card.rate, stream: false, ...(isPlain ? {} : { emotion: card.emotion }) };
    const started = performance.now();
    const response = await speech(body, { signal, isFresh: this.#page.isFresh() });
    const parts = [];
    for await (const samples of samplesOf(response)) parts.push(samples);
    card.samples = joined(parts);
    const told = toldBy(response);
    const seconds = card.samples.length / card.rate;
    card.about.replaceChildren(`${seconds.toFixed(2)} s `, cacheTag(told));
    card.button.disabled = false;
    drawWave(card.canvas, card.samples);
    const title = ["report.compare", { emotion: emotionName(card.emotion) }];
    this.#page.report({ ...told, title, seconds, wholeMs: performance.now() - started, bytes: 2 * card.samples.length });
  }

  #toggle(card) {
    const isOn = this.#playing === card && this.player.state === "playing";
    this.#queue = [];
    if (isOn) this.player.stop();
    else this.#play(card);
  }

  #playAll() {
    this.#queue = this.#cards.filter(({ samples }) => samples);
    this.#next();
  }

  #next() {
    const card = this.#queue.shift();
    if (card) this.#play(card);
  }

  #play(card) {
    this.#page.hush();
    this.#playing = card;
    this.player.load(card.samples, card.rate);
    this.player.play();
  }

  #mark() {
    for (const card of this.#cards) {
      card.item.toggleAttribute("data-playing", card === this.#playing && this.player.state === "playing");
    }
  }
}

function joined(parts) {
  const whole = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
