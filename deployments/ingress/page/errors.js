// Shows what went wrong: what it is in the language of the page, and the service's own words on how to fix it.

import { byId, make } from "./dom.js";
import { t, textOr } from "./preferences.js";

const FIELDS = { input: "input", text: "input", voice: "voice" };

/** Writes an error into a box; null hides the box. */
export function showError(box, error) {
  for (const id of new Set(Object.values(FIELDS))) byId(id).removeAttribute("aria-invalid");
  box.hidden = !error;
  box.replaceChildren();
  if (!error) return;
  const code = error.code ?? "other";
  const message = error.message || textOr(`error.${code}Hint`, "");
  const lines = [make("strong", {}, textOr(`error.${code}`, t("error.other"))), make("p", {}, message)];
  if (error.retryAfter) lines.push(make("p", {}, t("error.retryAfter", { seconds: error.retryAfter })));
  const details = [error.status || null, error.status ? code : null, error.requestId && t("error.requestId", { id: error.requestId })];
  if (details.some(Boolean)) lines.push(make("small", {}, details.filter(Boolean).join(" · ")));
  box.append(...lines);
  if (FIELDS[error.param]) byId(FIELDS[error.param]).setAttribute("aria-invalid", "true");
  if (error.status === 401) {
    byId("key-box").hidden = false;
    byId("key").focus();
  }
}
