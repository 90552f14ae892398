/** `1 min 12 s`, `2 h`, `3 days 4 h`. It uses nothing outside of itself, because a page without a bundle contains its text. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const pair = (big: string, small: number, unit: string) => small === 0 ? big : `${big} ${small} ${unit}`;
  if (minutes === 0) return `${seconds} s`;
  if (hours === 0) return pair(`${minutes} min`, seconds % 60, "s");
  if (days === 0) return pair(`${hours} h`, minutes % 60, "min");
  return pair(days === 1 ? "1 day" : `${days} days`, hours % 24, "h");
}
