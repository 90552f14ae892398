import assert from "node:assert/strict";
import { actionPattern } from "./entry.ts";

Deno.test.each<{ text: string; pattern: string }>([
  { text: "delete pods web/shop-1", pattern: "^(?:delete) (?:pods) (?:web)/(?:shop-1)$" },
  {
    text: "get,apply deployments,widgets.example.com web/*",
    pattern: "^(?:get|apply) (?:deployments\\.apps|widgets\\.example\\.com) (?:web)/(?:[^ ]+)$",
  },
  { text: "get nodes -/n1.local", pattern: "^(?:get) (?:nodes) (?:-)/(?:n1\\.local)$" },
])("actionPattern() makes a pattern of $text", ({ text, pattern }) => {
  assert.equal(actionPattern(text), pattern);
});

Deno.test.each<{ text: string; error: RegExp }>([
  { text: "get pods", error: /Cannot read action/ },
  { text: "get pods web", error: /Cannot read action/ },
  { text: "get pods web/a/b", error: /Cannot read action/ },
  { text: "allow get pods web/a", error: /Cannot read action/ },
  { text: "watch pods web/a", error: /Cannot grant "watch"/ },
  { text: "get widgets web/a", error: /Cannot grant "widgets"/ },
])("actionPattern() refuses $text", ({ text, error }) => {
  assert.throws(() => actionPattern(text), { message: error });
});
