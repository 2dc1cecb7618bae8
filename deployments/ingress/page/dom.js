// Small helpers around the document. Text always goes in as text, never as markup.

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Makes an element.
 *
 * @param {string} tag
 * @param {Object<string, unknown>} attributes Functions become listeners; null and false are left out; true is empty.
 * @param {...(Node|string)} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** Calls `work` at the next frame, once, however often it is asked for before. */
export function oncePerFrame(work) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      work();
    });
  };
}

/** Lets the browser save a blob as a file. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Seconds as m:ss.d. */
export function clock(seconds) {
  const tenths = Math.max(0, Math.round(seconds * 10));
  const rest = String((tenths % 600) / 10);
  return `${Math.floor(tenths / 600)}:${(tenths % 600) < 100 ? "0" : ""}${rest.includes(".") ? rest : `${rest}.0`}`;
}
