import assert from "node:assert/strict";
import { SPANISH } from "../../debate/web/page/es.ts";

const PAGE = new URL("../../debate/web/page/", import.meta.url);

/** The modules of the debate's page without the translations. */
const SOURCE = (await Promise.all(
  [...Deno.readDirSync(PAGE)].map(({ name }) => name)
    .filter((name) => /\.tsx?$/.test(name) && name !== "es.ts")
    .map((name) => Deno.readTextFile(new URL(name, PAGE))),
)).join("\n");

const spanish: Readonly<Record<string, string>> = SPANISH;

Deno.test("every text of the debate's page has a Spanish translation", () => {
  const texts = new Set(
    [...SOURCE.matchAll(/\bt\(\s*("(?:[^"\\]|\\.)*")/g)].map(([, literal]) => JSON.parse(literal ?? "")),
  );
  assert.ok(texts.size > 150, `${texts.size} texts`);
  assert.deepEqual([...texts].filter((text) => !Object.hasOwn(spanish, text)), []);
});

/** Words that the server stores and sends. */
const STORED = new Set([
  ...["running", "completed", "cancelled", "error", "active", "confirmed", "accepted", "approved", "timeout"],
  ...["auto", "cached", "medium", "continue", "Primary Diagnosis", "Skeptical Reviewer"],
]);

Deno.test("every translation of the debate's page is used", () => {
  const literals = new Set(
    [...SOURCE.matchAll(/"((?:[^"\\]|\\.)*)"|\b(\w+):/g)].map(([, one, other]) => one ?? other ?? ""),
  );
  assert.deepEqual(Object.keys(spanish).filter((text) => !literals.has(text) && !STORED.has(text)), []);
});

Deno.test("translations of the debate's page have the placeholders of their texts", () => {
  const values = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted();
  for (const [text, translation] of Object.entries(spanish)) {
    assert.deepEqual(values(translation), values(text), text);
  }
});
