import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readHtml } from "../testing/html_reader.ts";
import { pageHeaders, renderErrorPage, renderPage } from "./page.ts";
import { markup } from "./html.ts";
import { SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const PAGE = { title: "Approvals", approver: "approver-1", now: NOW, main: markup`<h1>x</h1>` };

const read = (page: string) => readHtml(page, [STYLE, SCRIPT]);
const hashOf = (source: string) => `'sha256-${createHash("sha256").update(source).digest("base64")}'`;

Deno.test("pageHeaders() lets our script and style run, by their hashes, and nothing else", () => {
  const [, script = ""] = /<script>([^]*)<\/script>/.exec(renderPage(PAGE)) ?? [];
  const [, style = ""] = /<style>([^]*)<\/style>/.exec(renderPage(PAGE)) ?? [];
  assert.deepEqual(pageHeaders()["content-security-policy"]?.split("; "), [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ]);
});

Deno.test.each([
  { header: "content-type", value: "text/html; charset=utf-8" },
  { header: "x-frame-options", value: "DENY" },
  { header: "x-content-type-options", value: "nosniff" },
  { header: "referrer-policy", value: "no-referrer" },
  { header: "cache-control", value: "no-store" },
  { header: "cross-origin-opener-policy", value: "same-origin" },
  { header: "cross-origin-resource-policy", value: "same-origin" },
])("pageHeaders() has $header: $value", ({ header, value }) => {
  assert.equal(pageHeaders()[header], value);
});

Deno.test("script and style can't be ended from within, and load nothing", () => {
  assert.doesNotMatch(
    SCRIPT,
    /<\/script|<!--|https?:|innerHTML|outerHTML|insertAdjacentHTML|\beval\b|Function\(/i,
  );
  assert.doesNotMatch(STYLE, /<|url\(|@import|https?:/i);
});

Deno.test("renderPage() has landmarks, a language, a skip link to the content, and says who reads", () => {
  const elements = read(renderPage(PAGE));
  const find = (tag: string) => elements.filter((element) => element.tag === tag);
  assert.equal(find("html")[0]?.attributes["lang"], "en");
  assert.deepEqual(find("a")[0], {
    tag: "a",
    attributes: { class: "skip", href: "#main" },
    text: "Skip to the content",
  });
  for (const landmark of ["header", "nav", "main", "footer"]) {
    assert.equal(find(landmark).length, 1, landmark);
  }
  assert.equal(find("main")[0]?.attributes["id"], "main");
  assert.ok(find("header")[0]?.text.includes("You are approver-1"));
  assert.equal(elements.find(({ attributes }) => attributes["role"] === "status")?.attributes["id"], "news");
});

Deno.test("renderPage() loads nothing from anywhere", () => {
  for (const { tag, attributes } of read(renderPage(PAGE))) {
    assert.ok(!["link", "img", "iframe", "object", "embed", "base"].includes(tag), tag);
    assert.ok(!("src" in attributes || "style" in attributes), tag);
  }
});

Deno.test("renderPage() is reloaded only where scripts don't run, and only when asked for", () => {
  const live = { state: [1], news: "x", refreshSeconds: 3 };
  assert.doesNotMatch(renderPage({ ...PAGE, live }), /http-equiv/);
  assert.match(
    renderPage({ ...PAGE, live: { ...live, reloadSeconds: 10 } }),
    /<noscript><meta http-equiv="refresh" content="10"><\/noscript>/,
  );
});

Deno.test("renderPage() shows by its state whether the content has changed", () => {
  const stateOf = (state: readonly unknown[]) =>
    read(renderPage({ ...PAGE, live: { state, news: "x", refreshSeconds: 3 } }))
      .find(({ tag }) => tag === "main")?.attributes["data-state"];
  assert.equal(stateOf(["a", 1]), stateOf(["a", 1]));
  assert.notEqual(stateOf(["a", 1]), stateOf(["a", 2]));
});

Deno.test("renderErrorPage() says what is wrong, and escapes it", () => {
  const page = renderErrorPage({
    status: 409,
    title: "Conflict",
    detail: "<b>\u202e",
    approver: "<i>",
    isApprover: true,
    now: NOW,
  });
  const elements = read(page);
  assert.equal(elements.find(({ attributes }) => attributes["role"] === "alert")?.text, "<b>\\u{202e}");
  assert.equal(elements.find(({ tag }) => tag === "title")?.text, "Conflict – Approvals");
  assert.ok(elements.every(({ tag }) => tag !== "i"));
});

Deno.test("renderErrorPage() tells who is not an approver about certificates", () => {
  const page = { status: 403, title: "Forbidden", detail: "not authorised", approver: "broker-1", now: NOW };
  assert.match(renderErrorPage({ ...page, isApprover: false }), /approval\.callers/);
  assert.doesNotMatch(renderErrorPage({ ...page, isApprover: true }), /approval\.callers/);
});
