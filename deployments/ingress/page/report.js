// How long the last request took, and where.

import { byId, make } from "./dom.js";
import { t, textOr } from "./preferences.js";

const milliseconds = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);

/** The panel with the timings of the last request. */
export class Report {
  #last = null;

  /**
   * Shows a request.
   *
   * @param {object} told `title`: a text key and its values; `cache`, `requestId`, `stages` as api.js reads them;
   *   `firstMs`, `wholeMs`: measured here; `seconds` of audio; `bytes` received; `isStream`.
   */
  take(told) {
    this.#last = told;
    this.show();
  }

  /** Shows it in the language of the page. */
  show() {
    const told = this.#last;
    if (!told) return;
    const rows = [];
    const row = (key, value) => value && rows.push(make("div", {}, make("dt", {}, t(key)), make("dd", { "data-row": key }, value)));
    row("report.cache", cacheTag(told));
    row("report.first", told.firstMs && milliseconds(told.firstMs));
    row("report.whole", told.wholeMs && milliseconds(told.wholeMs));
    row("report.length", told.seconds && `${told.seconds.toFixed(2)} s`);
    row("report.pace", told.seconds && told.wholeMs && t("report.paceValue", { value: ((1000 * told.seconds) / told.wholeMs).toFixed(1) }));
    row("report.size", told.bytes && `${(told.bytes / 1024).toFixed(1)} KiB`);
    row("report.id", told.requestId && make("code", {}, told.requestId));
    const title = make("p", { class: "what" }, t(told.title[0], told.title[1]));
    byId("report").replaceChildren(title, make("dl", { class: "facts" }, ...rows), ...stages(told.stages));
  }
}

/** The cache state as a coloured word. */
export function cacheTag({ cache, isStream }) {
  if (!cache) return isStream ? t("report.untold") : "";
  return make("span", { class: "tag", "data-cache": cache }, textOr(`cache.${cache}`, cache));
}

function stages(told) {
  if (!told.length) return [];
  const longest = Math.max(...told.map(({ ms }) => ms), 0.1);
  const rows = told.map(({ name, ms }) => {
    const bar = make("span", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--part", String(ms / longest));
    return make("tr", {}, make("th", { scope: "row" }, textOr(`stage.${name}`, name)), make("td", {}, bar), make("td", { class: "ms" }, milliseconds(ms)));
  });
  return [make("table", { class: "stages" }, make("caption", {}, t("report.stages")), make("tbody", {}, ...rows))];
}
