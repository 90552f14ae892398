import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { PAGE_FILES } from "./page_files.ts";

Deno.test("the page and all its files are below 150 KB, compressed", () => {
  const sizes = [...PAGE_FILES.values()].map(({ text }) => gzipSync(text).length);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(total < 150_000, `${total} bytes`);
});

Deno.test("every module and style that the page names is there", () => {
  const named = [...PAGE_FILES].flatMap(([path, { text }]) =>
    path.startsWith("/static/") && !path.endsWith("markdown-it.js")
      // A comment may name a module for its types, which no browser asks for.
      ? [...text.replace(/\/\*[^]*?\*\//g, "").matchAll(/from "\.\/([\w-]+\.js)"/g)].map(([, name]) =>
        `/static/${name}`
      )
      : path === "/"
      ? [...text.matchAll(/(?:href|src)="(\/static\/[^"]+)"/g)].map(([, name]) => name ?? "")
      : []
  );
  assert.deepEqual(named.filter((path) => !PAGE_FILES.has(path)), []);
});
