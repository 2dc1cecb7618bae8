"use strict";

// Runs before the first paint, so that a chosen theme does not flash. The switch is in preferences.js.
try {
  const theme = localStorage.getItem("sambert.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage may be forbidden: the page follows the system
}
