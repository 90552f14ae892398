// Runs before the first paint, so that the page never flashes in the wrong theme.
(() => {
  const KEY = "theme";
  const set = (/** @type {string} */ theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  // Browsers can block the storage of a page.
  const remembered = () => {
    try {
      return localStorage.getItem(KEY) ?? "";
    } catch {
      return "";
    }
  };
  set(remembered());
  document.addEventListener("DOMContentLoaded", () => {
    const select = /** @type {HTMLSelectElement} */ (document.getElementById("theme"));
    select.value = remembered();
    select.addEventListener("change", () => {
      set(select.value);
      try {
        localStorage.setItem(KEY, select.value);
      } catch {
        // The setting lasts until the page is closed.
      }
    });
  });
})();
