import assert from "node:assert/strict";
import events from "../../engine/events.ts" with { type: "text" };
import { SPANISH } from "../page/es.js";
import { fill, languageName } from "../page/words.js";
import { PAGE_FILES } from "../page_files.ts";

const spanish: Readonly<Record<string, string>> = SPANISH;
const OWN = [...PAGE_FILES].filter(([path]) =>
  path.endsWith(".js") && !/\/(?:es|markdown-it)\.js$/.test(path)
);

/** What the page's modules and its HTML say. */
function said(): ReadonlySet<string> {
  const modules = OWN.flatMap(([, { text }]) =>
    [...text.matchAll(/\bt\(\s*("(?:[^"\\]|\\.)*")/g)].map(([, literal]) => JSON.parse(literal ?? ""))
  );
  const html = PAGE_FILES.get("/")?.text ?? "";
  const texts = [...html.matchAll(/>([^<]+)</g), ...html.matchAll(/(?:placeholder|aria-label)="([^"]+)"/g)]
    .map(([, text]) => (text ?? "").replace(/\s+/g, " ").trim()).filter((text) => /\p{L}/u.test(text));
  return new Set([...modules, ...texts]);
}

Deno.test("everything that the page says, it also says in Spanish", () => {
  const all = said();
  assert.ok(all.size > 250);
  assert.deepEqual([...all].filter((text) => !Object.hasOwn(spanish, text)), []);
});

Deno.test("no translation is left over", () => {
  const all = said();
  const literals = new Set(
    OWN.flatMap(([, { text }]) =>
      [...text.matchAll(/"((?:[^"\\]|\\.)*)"|\b(\w+):/g)].map(([, one, other]) => one ?? other ?? "")
    ),
  );
  // As they are stored, and sent by the server.
  const stored = new Set([
    ...[
      "running",
      "completed",
      "cancelled",
      "error",
      "active",
      "confirmed",
      "accepted",
      "approved",
      "timeout",
    ],
    ...["auto", "cached", "medium", "continue", "Primary Diagnosis", "Skeptical Reviewer"],
  ]);
  const unknown = Object.keys(spanish).filter((text) =>
    !all.has(text) && !literals.has(text) && !stored.has(text)
  );
  assert.deepEqual(unknown, []);
});

Deno.test("translations have the same values as what they translate", () => {
  const values = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted();
  for (const [text, translation] of Object.entries(spanish)) {
    assert.deepEqual(values(translation), values(text), text);
  }
});

Deno.test("a value is put in as it is, even if it looks like a place for another", () => {
  assert.equal(fill("{a} and {b}", { a: "{b}", b: "$&" }), "{b} and $&");
  assert.equal(fill("{a}{c}", { a: undefined }), "");
});

Deno.test("every kind of event of the server is shown, or only counted in the answer", () => {
  const types = [...events.matchAll(/readonly type: "(\w+)";/g)].map(([, type]) => type);
  const shown = PAGE_FILES.get("/static/conversation.js")?.text ?? "";
  const counted = PAGE_FILES.get("/static/summary.js")?.text ?? "";
  assert.ok(types.length > 20);
  assert.deepEqual(types.filter((type) => !`${shown}${counted}`.includes(`case "${type}":`)), []);
});

Deno.test("a language is shown by its name, and one that does not exist as it is written", () => {
  assert.deepEqual(["en", "es", "x", "pt_BR"].map(languageName), ["English", "Spanish", "x", "pt_BR"]);
});
