// What the page remembers in this browser, and the language of its texts.

const PREFIX = "sambert.";
const LANGUAGES = ["en", "zh"];
let texts = {};
let language = "en";

/** What was kept under a name, or `otherwise`; storage that is forbidden, full or broken is no fault. */
export function recall(name, otherwise = null) {
  try {
    const kept = localStorage.getItem(PREFIX + name);
    return kept === null ? otherwise : kept;
  } catch {
    return otherwise;
  }
}

/** Keeps a string; null forgets it. Returns whether it was kept. */
export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
    return true;
  } catch {
    return false;
  }
}

/** Loads the texts and chooses the language: the one chosen before, else the browser's. */
export async function loadTexts() {
  const response = await fetch("page/texts.json");
  texts = await response.json();
  const kept = recall("language");
  const wanted = navigator.languages.find((tag) => LANGUAGES.includes(tag.slice(0, 2).toLowerCase())) || "en";
  language = LANGUAGES.includes(kept) ? kept : wanted.slice(0, 2).toLowerCase();
}

/** The language of the page: "en" or "zh". */
export function currentLanguage() {
  return language;
}

/** Changes to the other language and remembers it. */
export function switchLanguage() {
  language = language === "zh" ? "en" : "zh";
  keep("language", language);
}

/** A text of the page; {name} in it is replaced by a value. A key that is missing shows itself. */
export function t(key, values = {}) {
  const text = texts[language]?.[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** A text of the page, or `otherwise` where there is none. */
export function textOr(key, otherwise) {
  return texts[language]?.[key] ?? otherwise;
}

/** The name of an emotion in the language of the page. */
export function emotionName(emotion) {
  return textOr(`emotion.${emotion}`, emotion);
}

/** Example texts in the language of the page: names, and the Chinese that they stand for. */
export function examples() {
  return texts.examples.map(({ key, text }) => ({ name: t(`example.${key}`), text }));
}

/** Writes the texts into every element that names one. */
export function applyTexts(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of root.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
  for (const element of root.querySelectorAll("[data-label]")) element.setAttribute("aria-label", t(element.dataset.label));
  for (const element of root.querySelectorAll("[data-tip]")) element.title = t(element.dataset.tip);
  for (const element of root.querySelectorAll("[data-placeholder]")) element.placeholder = t(element.dataset.placeholder);
}

/** Changes between light and dark; back to what the system says where that is the same. */
export function switchTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const shown = document.documentElement.dataset.theme || system;
  const next = shown === "dark" ? "light" : "dark";
  if (next === system) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  keep("theme", next === system ? null : next);
}

/** Whether the page is shown dark. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
