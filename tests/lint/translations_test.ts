import assert from "node:assert/strict";
import { SPANISH } from "../../debate/web/page/es.ts";
import { ROOT } from "../stage/service_command.ts";

const spanish: Readonly<Record<string, string>> = SPANISH;
const FOLDER = `${ROOT}debate/web/page`;
const SOURCES = [...Deno.readDirSync(FOLDER)].map(({ name }) => name)
  .filter((name) => /\.tsx?$/.test(name) && name !== "es.ts")
  .map((name) => Deno.readTextFileSync(`${FOLDER}/${name}`));

/** All literals of the modules that a pattern finds. */
function literals(pattern: RegExp): ReadonlySet<string> {
  return new Set(
    SOURCES.flatMap((text) =>
      [...text.matchAll(pattern)].map(([, literal]) => JSON.parse(literal ?? "") as string)
    ),
  );
}

/** Words that the server stores and sends. The page translates them like its own. */
const STORED = [
  ...["running", "completed", "cancelled", "interrupted", "error", "active", "confirmed", "accepted"],
  ...["approved", "rejected", "timeout", "auto", "cached", "low", "medium", "high", "continue"],
  ...["Primary Diagnosis", "Skeptical Reviewer"],
];

Deno.test("every text of the page has a Spanish translation", () => {
  const said = literals(/\bt\(\s*("(?:[^"\\]|\\.)*")/g);
  assert.ok(said.size > 150, `only ${said.size} texts were found`);
  assert.deepEqual([...said].filter((text) => !Object.hasOwn(spanish, text)), []);
});

Deno.test("every translation is used", () => {
  const written = literals(/("(?:[^"\\\n]|\\.)*")/g);
  const names = new Set(SOURCES.flatMap((text) => [...text.matchAll(/\b(\w+):/g)].map(([, name]) => name)));
  const unused = Object.keys(spanish).filter((text) =>
    !written.has(text) && !names.has(text) && !STORED.includes(text)
  );
  assert.deepEqual(unused, []);
});

Deno.test("translations have the placeholders of their texts", () => {
  const values = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted();
  for (const [text, translation] of Object.entries(spanish)) {
    assert.deepEqual(values(translation), values(text), text);
  }
});
