// What the front end understood, and which part of it is heard now.

import { byId, make } from "./dom.js";
import { t } from "./preferences.js";
import { tiles, withMark } from "./pinyin.js";

const SYLLABLE_S = 0.22;

/** The panel with words and pinyin. Calls `seek` with seconds when a part of it is clicked. */
export class Reading {
  #seek;
  #segments = [];
  #timed = null;
  #marks = [];
  #now = null;

  constructor(seek) {
    this.#seek = seek;
  }

  /** How many segments the text has; 0 before one was read. */
  get numSegments() {
    return this.#segments.length;
  }

  /** Forgets what was read. */
  clear() {
    this.#segments = [];
    this.#timed = null;
    this.show();
  }

  /** Takes the answer of the text analysis. */
  take({ segments }) {
    this.#segments = segments;
    this.#timed = null;
    this.show();
  }

  /** Takes the answer with time stamps for the same text. */
  time({ segments }) {
    if (segments.length !== this.#segments.length) this.#segments = segments.map((segment) => fromTimed(segment));
    this.#timed = segments;
    this.show();
  }

  /** Shows it all, in the language of the page. */
  show() {
    this.#marks = [];
    this.#now = null;
    const lines = this.#segments.map((segment, index) => this.#line(segment, this.#timed?.[index]));
    byId("lines").replaceChildren(...(lines.length ? lines : [make("p", { class: "hint" }, t("readingEmpty"))]));
    byId("reading").toggleAttribute("data-empty", !lines.length);
    byId("reading-kind").textContent = lines.length ? t(this.#timed ? "readingTimed" : "readingEstimated") : "";
    const symbols = this.#segments.map(({ symbols: items }) => make("p", {}, items || "")).filter((line) => line.textContent);
    byId("symbols-box").hidden = !symbols.length;
    byId("symbols").replaceChildren(...symbols);
  }

  /**
   * Lights up what is heard.
   *
   * @param {number|null} position Seconds; null for nothing.
   * @param {number} duration Seconds of audio so far.
   * @param {boolean} isWhole Whether that is all of it.
   */
  follow(position, duration, isWhole) {
    if (!this.#timed) estimate(this.#marks, duration, isWhole);
    const mark = position === null ? undefined : this.#marks.findLast(({ startS }) => startS <= position);
    const now = mark && position < mark.endS + 0.05 ? mark : null;
    if (now === this.#now) return;
    this.#now?.element.removeAttribute("aria-current");
    now?.element.setAttribute("aria-current", "true");
    this.#now = now;
    if (now) reveal(byId("lines"), now.element);
  }

  #line(segment, timed) {
    const line = make("div", { class: "line" });
    const cut = tiles(segment.normalized, segment.pinyin);
    if (!cut) {
      const words = make("p", { class: "plain-reading" }, segment.normalized, " ", make("small", {}, segment.pinyin.map(withMark).join(" ")));
      line.append(words);
      this.#mark(line, timed, segment);
    } else if (timed?.words.length) {
      this.#words(line, cut, timed.words);
    } else {
      line.append(...cut.map(tile));
      this.#mark(line, timed, segment);
    }
    if (segment.text.trim() !== segment.normalized.trim()) line.append(make("p", { class: "source", title: segment.text }, segment.text));
    return line;
  }

  /** Tiles gathered into words, each with its time. */
  #words(line, cut, words) {
    let next = 0;
    for (const word of words) {
      const isSilent = (at) => at < cut.length && !cut[at].pinyin;
      for (; isSilent(next); next += 1) line.append(tile(cut[next]));
      const from = next;
      for (let left = syllables(word).length; left > 0 && next < cut.length; next += 1) left -= isSilent(next) ? 0 : 1;
      const box = make("span", { class: "word" }, ...cut.slice(from, next).map(tile));
      line.append(box);
      this.#mark(box, word);
    }
    line.append(...cut.slice(next).map(tile));
  }

  #mark(element, timed, segment = null) {
    const mark = { element, startS: timed?.start_s ?? Infinity, endS: timed?.end_s ?? Infinity, weight: segment?.pinyin.length ?? 0 };
    element.classList.add("mark");
    element.addEventListener("click", () => Number.isFinite(mark.startS) && this.#seek(mark.startS));
    this.#marks.push(mark);
  }
}

/** Shares the time among segments by their syllables, while nobody has told it. */
function estimate(marks, duration, isWhole) {
  const total = marks.reduce((sum, { weight }) => sum + weight, 0);
  const syllableS = isWhole && total ? duration / total : SYLLABLE_S;
  let startS = 0;
  for (const mark of marks) {
    mark.startS = startS;
    startS += mark.weight * syllableS;
    mark.endS = startS;
  }
}

function tile({ text, pinyin }) {
  if (!pinyin) return make("span", { class: "aside" }, text);
  return make("ruby", { title: pinyin }, text, make("rt", {}, withMark(pinyin)));
}

function syllables(word) {
  return Array.isArray(word.pinyin) ? word.pinyin : word.pinyin.split(" ");
}

function fromTimed({ text, words }) {
  return { text, normalized: words.map((word) => word.text).join(""), pinyin: words.flatMap(syllables), symbols: "" };
}

/** Scrolls the box, and only the box, so far that the element is seen. */
function reveal(box, element) {
  const inner = element.getBoundingClientRect();
  const outer = box.getBoundingClientRect();
  if (inner.top < outer.top) box.scrollTop += inner.top - outer.top - 8;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + 8;
}
