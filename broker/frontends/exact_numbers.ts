/** What the engine has and the compiler's library does not describe yet (ECMAScript 2026, JSON source text access). */
const json = JSON as JSON & { rawJSON(text: string): unknown };

/**
 * The same value with each `bigint` as something that `JSON.stringify` writes as its digits: the MCP library
 * writes its HTTP answers with that, which by itself knows no `bigint`.
 */
export function exactNumbers(value: unknown): unknown {
  if (typeof value === "bigint") return json.rawJSON(value.toString());
  if (Array.isArray(value)) return value.map(exactNumbers);
  if (typeof value !== "object" || value === null) return value;
  return exactMembers(value);
}

/** {@linkcode exactNumbers} of an object's members. */
export function exactMembers(object: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(object).map(([key, member]) => [key, exactNumbers(member)]));
}
