export function takesEffort(name: string): boolean {
  return isReasoner(name) || isThinkingClaude(name);
}

/** Whether a model accepts a temperature, with or without a reasoning effort. */
export function takesTemperature(name: string, withEffort: boolean): boolean {
  return !isReasoner(name) && !(withEffort && isThinkingClaude(name));
}

/** The name of the limit of a reply in chat completions. The o series and gpt-5 reject `max_tokens`. */
export function tokenLimitOf(name: string): "max_tokens" | "max_completion_tokens" {
  return isReasoner(name) ? "max_completion_tokens" : "max_tokens";
}

/** Whether a model of `assist` requires the responses protocol and rejects chat completions. */
export function speaksResponses(name: string): boolean {
  return segmentsOf(name).includes("-gpt-5-5-");
}

/** The o series, and gpt-5 and later. Names are compared by whole segments, so `gpt-4o` is not `o4`. */
function isReasoner(name: string): boolean {
  return /-(?:o[134]|gpt-[5-9])-/.test(segmentsOf(name));
}

/** Sonnet and Opus from version 4 on, and Sonnet 3.7, with the version on either side of the word. */
function isThinkingClaude(name: string): boolean {
  const segments = segmentsOf(name).split("-");
  if (!segments.includes("claude")) return false;
  if (!segments.includes("sonnet") && !segments.includes("opus")) return false;
  // A date such as 20250514 is not a version.
  const [major = 0, minor = 0] = segments.filter((segment) => /^\d{1,2}$/.test(segment)).map(Number);
  return major >= 4 || (major === 3 && minor === 7);
}

/** The segments of a name, each with a dash on both sides. */
function segmentsOf(name: string): string {
  return `-${name.toLowerCase().replace(/[/.]/g, "-")}-`;
}
