/** A choice of the user in this browser. Browsers can block the storage of a page, and tests have none. */
export function readChoice(key: string): string {
  try {
    return globalThis.localStorage?.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Stores a choice. Without storage it lasts until the page is closed. */
export function storeChoice(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // See above.
  }
}
