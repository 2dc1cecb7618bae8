// The form: text, voice, emotion, sliders, switches; what it says as a request, and back.

import { byId, make } from "./dom.js";
import { emotionName, examples, t } from "./preferences.js";

const signed = (value) => (value > 0 ? `+${value}` : String(value).replace("-", "−"));
const percent = (value) => `${Math.round(100 * value)} %`;
// stands: what the slider stands at for a value; value: what it means there
const SLIDERS = {
  emotion_intensity: { text: "intensity", min: 0, max: 2, step: 0.05, initial: 1, value: (at) => Math.max(0.01, at), stands: (v) => v, shown: percent },
  speed: { text: "speed", min: -2, max: 2, step: 0.1, initial: 1, value: (at) => Math.round(100 * 2 ** at) / 100, stands: Math.log2, shown: (v) => `${v.toFixed(2)} ×` },
  pitch: { text: "pitch", min: -12, max: 12, step: 0.5, initial: 0, value: (at) => at, stands: (v) => v, shown: (v) => t("semitones", { value: signed(v) }) },
  volume: { text: "volume", min: 0, max: 2, step: 0.05, initial: 1, value: (at) => at, stands: (v) => v, shown: percent },
};

/** The form of the page. Calls `changed` whenever a value changes. */
export class Controls {
  #voices = [];
  #emotion = "neutral";
  #changed;

  constructor(changed) {
    this.#changed = changed;
    for (const [name, slider] of Object.entries(SLIDERS)) byId("sliders").append(this.#slider(name, slider));
    byId("input").addEventListener("input", () => this.#textChanged());
    byId("voice").addEventListener("change", () => this.#voiceChanged());
    byId("reset").addEventListener("click", () => this.reset());
    byId("emotions").addEventListener("change", ({ target }) => this.#choose(target.value));
    this.translate();
  }

  /** The voice that is chosen, as the service lists it; undefined before the voices are known. */
  get voice() {
    return this.#voices.find(({ id }) => id === byId("voice").value);
  }

  /** What the form says, as fields of a request; `isFresh` asks for no answer from the cache. */
  read() {
    const numbers = Object.fromEntries(Object.entries(SLIDERS).map(([name, slider]) => [name, this.#valueOf(name, slider)]));
    const fields = { input: byId("input").value, voice: byId("voice").value, ...numbers, normalize: byId("normalize").checked };
    if (this.voice?.emotions.length) fields.emotion = this.#emotion;
    return fields;
  }

  /** Whether the cache is to be passed by. */
  get isFresh() {
    return byId("fresh").checked;
  }

  /** Puts fields of a request into the form; what the service no longer has stays as it is. */
  write(fields) {
    byId("input").value = fields.input ?? byId("input").value;
    if (this.#voices.some(({ id }) => id === fields.voice)) byId("voice").value = fields.voice;
    for (const [name, slider] of Object.entries(SLIDERS)) byId(name).value = slider.stands(fields[name] ?? slider.initial);
    byId("normalize").checked = fields.normalize ?? true;
    this.#emotion = fields.emotion ?? this.#emotion;
    this.translate();
  }

  /** Everything but text and voice as it was at first. */
  reset() {
    byId("fresh").checked = false;
    this.write({ emotion: this.voice?.emotions[0] ?? "neutral" });
  }

  /** Takes the list of voices; the default one is chosen unless another one was. */
  offer(voices) {
    const before = byId("voice").value;
    this.#voices = voices;
    byId("voice").replaceChildren(...voices.map(({ id, name }) => make("option", { value: id }, name)));
    const chosen = voices.find(({ id }) => id === before) ?? voices.find((voice) => voice.default) ?? voices[0];
    byId("voice").value = chosen?.id ?? "";
    this.#voiceChanged();
  }

  /** Writes everything that depends on the language. */
  translate() {
    const names = examples();
    byId("examples").replaceChildren(...names.map(({ name, text }) => make("button", { type: "button", class: "chip", click: () => this.#take(text) }, name)));
    for (const [name, slider] of Object.entries(SLIDERS)) {
      byId(`${name}-text`).textContent = t(slider.text);
      this.#show(name, slider);
    }
    this.#textChanged();
    this.#voiceChanged();
  }

  #slider(name, slider) {
    const { min, max, step } = slider;
    const input = make("input", { type: "range", id: name, min, max, step, input: () => { this.#show(name, slider); this.#changed(); } });
    input.value = slider.stands(slider.initial);
    input.addEventListener("dblclick", () => { input.value = slider.stands(slider.initial); this.#show(name, slider); });
    // no output element: it would be read aloud beside the slider's own value
    const shown = make("span", { id: `${name}-shown`, class: "shown", "aria-hidden": "true" });
    return make("div", { class: "slider" }, make("label", { for: name, id: `${name}-text` }), shown, input);
  }

  #valueOf(name, slider) {
    return slider.value(Number(byId(name).value));
  }

  #show(name, slider) {
    const text = slider.shown(this.#valueOf(name, slider));
    const { min, max } = slider;
    byId(`${name}-shown`).textContent = text;
    byId(name).setAttribute("aria-valuetext", text);
    byId(name).style.setProperty("--part", String((Number(byId(name).value) - min) / (max - min)));
  }

  #take(text) {
    byId("input").value = text;
    this.#textChanged();
    byId("input").focus();
  }

  #textChanged() {
    const text = byId("input").value;
    byId("count").textContent = t("count", { count: [...text].length });
    byId("ssml").hidden = !text.trimStart().startsWith("<");
    this.#changed();
  }

  #voiceChanged() {
    const { voice } = this;
    if (!voice) return;
    if (!voice.emotions.includes(this.#emotion)) this.#emotion = voice.emotions[0] ?? "neutral";
    const khz = voice.sample_rate / 1000;
    byId("voice-about").textContent = t("voiceAbout", { model: voice.model, language: voice.language, khz, license: voice.license });
    byId("emotion-field").hidden = !voice.emotions.length;
    byId("emotions").replaceChildren(...voice.emotions.map((emotion) => this.#emotionChip(emotion)));
    this.#choose(this.#emotion);
  }

  #emotionChip(emotion) {
    const input = make("input", { type: "radio", name: "emotion", value: emotion, checked: emotion === this.#emotion });
    return make("label", { class: "chip" }, input, make("span", {}, emotionName(emotion)));
  }

  #choose(emotion) {
    this.#emotion = emotion;
    const isOff = emotion === "neutral" || !this.voice?.emotions.length;
    byId("emotion_intensity").disabled = isOff;
    this.#changed();
  }
}
