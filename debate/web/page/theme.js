// Runs before anything is painted, so that no page flashes in the wrong colours.
(() => {
  const KEY = "theme";
  const set = (/** @type {string} */ theme) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  // Browsers may forbid a page to remember anything.
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
        // It lasts as long as the page.
      }
    });
  });
})();
