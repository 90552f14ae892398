import assert from "node:assert/strict";
import { assertLinearWork } from "@gateway/shared/testing";
import { compileGlob } from "./glob.ts";

Deno.test.each([
  { pattern: "README*", path: "README.md", matches: true },
  { pattern: "README*", path: "docs/README.md", matches: false },
  { pattern: "*.md", path: "a/b.md", matches: false },
  { pattern: "**/*.md", path: "a.md", matches: true },
  { pattern: "**/*.md", path: "a/b/c.md", matches: true },
  { pattern: "src/**/*", path: "src/a", matches: true },
  { pattern: "src/**/*", path: "src/a/b/c.ts", matches: true },
  { pattern: "src/**/*", path: "srcs/a", matches: false },
  { pattern: "tests/**", path: "tests/a/b", matches: true },
  { pattern: "**/x/**/y", path: "a/x/b/c/y", matches: true },
  { pattern: "**/x/**/y", path: "a/b/y", matches: false },
  { pattern: "a?c", path: "abc", matches: true },
  { pattern: "a?c", path: "ac", matches: false },
  { pattern: "*.{ts,js}", path: "a.js", matches: true },
  { pattern: "*.{ts,js}", path: "a.css", matches: false },
  { pattern: "./src/*.ts", path: "src/a.ts", matches: true },
  { pattern: "a.c", path: "abc", matches: false },
  { pattern: "[ab]", path: "[ab]", matches: true },
  { pattern: "*a*b*c", path: "xaxbxc", matches: true },
  { pattern: "*a*b*c", path: "xaxbx", matches: false },
].map((row) => ({
  ...row,
  name: `${row.pattern} ${row.matches ? "matches" : "does not match"} ${row.path}`,
})))(
  "compileGlob() $name",
  ({ pattern, path, matches }) => {
    const matcher = compileGlob(pattern);
    assert.ok(typeof matcher === "function");
    assert.equal(matcher(path), matches);
  },
);

Deno.test.each(
  ["", "/etc/*", "../x", "a/../../b", "{a", "{a,{b,c}}", "{a,b}".repeat(10), "a".repeat(301)].map((
    pattern,
  ) => ({
    name: JSON.stringify(pattern.slice(0, 20)),
    pattern,
  })),
)("compileGlob() refuses $name", ({ pattern }) => {
  assert.equal(typeof compileGlob(pattern), "string");
});

Deno.test.each(["*a".repeat(140), "**/".repeat(90) + "x"].map((pattern) => ({
  name: pattern.slice(0, 10),
  pattern,
})))("compileGlob() matches in linear time with a pattern made to be slow: $name", ({ pattern }) => {
  const matcher = compileGlob(pattern);
  assert.ok(typeof matcher === "function");
  for (const unit of ["a", "a/"]) {
    assertLinearWork((size) => assert.equal(matcher(`${unit.repeat(size)}b`), false), 4_000);
  }
});
