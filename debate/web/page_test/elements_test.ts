import assert from "node:assert/strict";
import page from "../page/index.html" with { type: "text" };
import types from "../page/types.js" with { type: "text" };

/** What elements are called by a browser. */
const CLASSES: Readonly<Record<string, string>> = {
  a: "HTMLAnchorElement",
  button: "HTMLButtonElement",
  details: "HTMLDetailsElement",
  dialog: "HTMLDialogElement",
  div: "HTMLDivElement",
  dl: "HTMLDListElement",
  fieldset: "HTMLFieldSetElement",
  form: "Form",
  h1: "HTMLHeadingElement",
  h2: "HTMLHeadingElement",
  h3: "HTMLHeadingElement",
  input: "HTMLInputElement",
  ol: "HTMLOListElement",
  output: "HTMLOutputElement",
  p: "HTMLParagraphElement",
  pre: "HTMLPreElement",
  select: "HTMLSelectElement",
  span: "HTMLSpanElement",
  table: "HTMLTableElement",
  tbody: "HTMLTableSectionElement",
  textarea: "HTMLTextAreaElement",
  ul: "HTMLUListElement",
};

Deno.test("the elements of the page are those that its modules are checked with", () => {
  const inPage = [...page.matchAll(/<(\w+)\b[^>]*? id="([\w-]+)"/g)]
    .map(([, tag = "", id]) => `${id}: ${CLASSES[tag] ?? "HTMLElement"}`);
  const [listed = ""] = /^ \* @typedef \{\{\n(?: \* {3}.*\n)+ \* \}\} Elements$/m.exec(types) ?? [];
  const inTypes = [...listed.matchAll(/^ \* {3}"?([\w-]+)"?: (\w+)/gm)]
    .map(([, id, type = ""]) => `${id}: ${/Form$/.test(type) ? "Form" : type}`);
  assert.ok(inPage.length > 80, `${inPage.length} elements`);
  assert.deepEqual(inTypes.toSorted(), inPage.toSorted());
});

Deno.test("a field that the page's modules read of a form is in it", () => {
  for (
    const [form, ...names] of [
      ["start-form", "topic", "template", "language", "mode", "require_approval"],
      ["comment-form", "comment", "added"],
      ["resume-form", "require_approval"],
      ["title-form", "title"],
    ]
  ) {
    const [, text = ""] = new RegExp(`<form id="${form}"([^]*?)</form>`).exec(page) ?? [];
    for (const name of names) {
      assert.match(text, new RegExp(`<(?:input|textarea|select)[^>]* name="${name}"`));
    }
  }
});
