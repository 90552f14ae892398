// Runs before the first paint, so that the page never flashes in the wrong theme.
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // The browser blocks the storage of the page.
}
