// What was spoken last, kept in this browser.

import { byId, make } from "./dom.js";
import { currentLanguage, emotionName, keep, recall, t } from "./preferences.js";

const MAX_ENTRIES = 20;
const NAME = "recent";

/** The list of recent requests. Calls `choose` with the fields of the one that is clicked. */
export class Recent {
  #choose;
  #entries = read();

  constructor(choose) {
    this.#choose = choose;
    byId("forget").addEventListener("click", () => this.#replace([]));
    this.show();
  }

  /** Puts a request on top; the same request further down goes. */
  add(fields) {
    const same = JSON.stringify(fields);
    const others = this.#entries.filter(({ at, ...entry }) => JSON.stringify(entry) !== same);
    this.#replace([{ ...fields, at: Date.now() }, ...others].slice(0, MAX_ENTRIES));
  }

  /** Shows the list, in the language of the page. */
  show() {
    byId("recent").replaceChildren(...this.#entries.map((entry) => this.#item(entry)));
    byId("recent-empty").hidden = this.#entries.length > 0;
    byId("forget").hidden = !this.#entries.length;
  }

  #item(entry) {
    const { at, ...fields } = entry;
    const when = new Intl.DateTimeFormat(currentLanguage(), { dateStyle: "short", timeStyle: "short" }).format(at);
    const about = [fields.voice, fields.emotion && emotionName(fields.emotion), when].filter(Boolean).join(" · ");
    const text = make("span", { class: "excerpt", lang: "zh" }, fields.input);
    const restore = make("button", { type: "button", class: "entry", click: () => this.#choose(fields) }, text, make("small", {}, about));
    const drop = make("button", { type: "button", class: "drop", "aria-label": `${t("forgetOne")}: ${fields.input.slice(0, 20)}`, click: () => this.#drop(entry) }, "×");
    return make("li", {}, restore, drop);
  }

  #drop(entry) {
    this.#replace(this.#entries.filter((other) => other !== entry));
  }

  /** Keeps the entries; where the browser has no room for all, as many of the newest as fit. */
  #replace(entries) {
    this.#entries = entries;
    for (let count = entries.length; !keep(NAME, JSON.stringify(entries.slice(0, count))) && count > 0;) count = Math.floor(count / 2);
    this.show();
  }
}

function read() {
  try {
    const kept = JSON.parse(recall(NAME, "[]"));
    return Array.isArray(kept) ? kept.filter((entry) => typeof entry?.input === "string").slice(0, MAX_ENTRIES) : [];
  } catch {
    return [];
  }
}
