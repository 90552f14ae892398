/** What the page says, in Spanish. A test compares it with what the page's modules say. */
export const SPANISH = {};
