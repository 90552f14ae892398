import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { postJson } from "./outbox.ts";
import fc from "fast-check";
import { anyText, HOSTILE_TEXTS } from "./testing/hostile_text.ts";
import { cutWithNote, escapeHtml, escapeMarkdown, plainLine } from "./facts.ts";

const URL_WITH_SECRET = new URL("https://hooks.example/workflows/s3cret-path?sig=s3cret-query");

interface Call {
  readonly url: string;
  readonly init: RequestInit;
}

/** A fetch that returns this answer and records its requests. */
function fakeFetch(answer: (init: RequestInit) => Response | Promise<Response>) {
  const calls: Call[] = [];
  const fetch = (input: string | URL | Request, init: RequestInit = {}) => {
    calls.push({ url: String(input), init });
    return Promise.resolve(answer(init));
  };
  return { fetch, calls };
}

function post(
  fetch: typeof globalThis.fetch,
  { clock = new FakeClock(), signal = new AbortController().signal } = {},
) {
  return postJson({ fetch, clock, url: URL_WITH_SECRET, headers: { "webhook-id": "a" }, body: "{}", signal });
}

/** Fails with the same error as the platform's fetch. */
function failedFetch(message: string): never {
  throw new TypeError("fetch failed", { cause: new Error(message) });
}

Deno.test("postJson() posts JSON with the given headers and follows no redirect", async () => {
  const { fetch, calls } = fakeFetch(() => new Response(null, { status: 202 }));
  assert.deepEqual(await post(fetch), { kind: "sent" });
  const [{ url, init }] = calls as [Call];
  assert.equal(url, URL_WITH_SECRET.href);
  assert.equal(init.method, "POST");
  assert.equal(init.redirect, "manual");
  assert.equal(init.body, "{}");
  assert.deepEqual(init.headers, { "content-type": "application/json", "webhook-id": "a" });
  assert.equal(calls.length, 1);
});

Deno.test.each([
  { status: 200, kind: "sent" },
  { status: 299, kind: "sent" },
  { status: 301, kind: "failed", mayRetry: false },
  { status: 307, kind: "failed", mayRetry: false },
  { status: 400, kind: "failed", mayRetry: false },
  { status: 410, kind: "failed", mayRetry: false },
  { status: 429, kind: "failed", mayRetry: true },
  { status: 500, kind: "failed", mayRetry: true },
  { status: 503, kind: "failed", mayRetry: true },
])("postJson() reports status $status as $kind", async ({ status, kind, mayRetry }) => {
  const { fetch } = fakeFetch(() =>
    new Response("x", { status, headers: { location: "http://evil.example/" } })
  );
  const attempt = await post(fetch);
  assert.equal(attempt.kind, kind);
  if (attempt.kind === "failed") {
    assert.equal(attempt.mayRetry, mayRetry);
    assert.match(attempt.reason, new RegExp(`^answered ${status}`));
    assert.doesNotMatch(attempt.reason, /evil/);
  }
});

Deno.test("postJson() fails after 5 seconds even if fetch ignores the signal", async () => {
  const clock = new FakeClock();
  const { fetch } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { clock });
  await clock.advance(4999);
  assert.equal(clock.sleeping, 1);
  await clock.advance(1);
  assert.deepEqual(await attempt, { kind: "failed", reason: "no answer within 5 seconds", mayRetry: true });
});

Deno.test("postJson() aborts the signal of the fetch at the timeout", async () => {
  const clock = new FakeClock();
  const { fetch, calls } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { clock });
  await clock.advance(5000);
  await attempt;
  assert.equal(calls[0]?.init.signal?.aborted, true);
});

Deno.test("postJson() ends immediately when aborted", async () => {
  const aborter = new AbortController();
  const { fetch } = fakeFetch(() => new Promise<Response>(() => {}));
  const attempt = post(fetch, { signal: aborter.signal });
  aborter.abort();
  assert.equal((await attempt).kind, "failed");
});

Deno.test("postJson() reads at most 4 KiB of an endless answer and cancels the rest", async () => {
  let pulled = 0;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulled += 1024;
      controller.enqueue(new Uint8Array(1024));
    },
    cancel: () => void (cancelled = true),
  });
  const { fetch } = fakeFetch(() => new Response(body));
  assert.deepEqual(await post(fetch), { kind: "sent" });
  assert.equal(cancelled, true);
  assert.ok(pulled <= 7 * 1024, String(pulled));
});

Deno.test.each([
  { name: "never ends", body: () => new ReadableStream<Uint8Array>() },
  {
    name: "breaks off",
    body: () =>
      new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("reset")) }),
  },
])("postJson() reports an accepted post as sent even if the answer $name", async ({ body }) => {
  const clock = new FakeClock();
  const { fetch } = fakeFetch(() => new Response(body()));
  const attempt = post(fetch, { clock });
  await clock.advance(5000);
  assert.deepEqual(await attempt, { kind: "sent" });
});

Deno.test.each([
  {
    name: "a refused connection",
    message:
      `error sending request for url (${URL_WITH_SECRET}): client error (Connect): tcp connect error: ` +
      "Connection refused (os error 111)",
    reason: "connection failed: Connection refused (os error 111)",
  },
  {
    name: "a certificate error",
    message: `error sending request for url (${URL_WITH_SECRET}): client error (Connect): ` +
      "invalid peer certificate: UnknownIssuer",
    reason: "connection failed: UnknownIssuer",
  },
  {
    name: "an error with only the address",
    message: `error sending request for url (${URL_WITH_SECRET})`,
    reason: "connection failed: TypeError",
  },
])("postJson() reports $name without the address", async ({ message, reason }) => {
  const { fetch } = fakeFetch(() => failedFetch(message));
  assert.deepEqual(await post(fetch), { kind: "failed", reason, mayRetry: true });
});

const MARKDOWN_CONTROL = "\\`*_[]()#~>|<!&";
const lines = anyText.map((text) => plainLine(text, 10_000));

/** Renders backslash escapes (CommonMark section 2.4). Fails on an unescaped control character. */
function renderMarkdown(source: string): string {
  let rendered = "";
  for (let index = 0; index < source.length; index++) {
    const character = source.charAt(index);
    if (character === "\\") {
      index++;
      assert.match(source.charAt(index), /[!-/:-@[-`{-~]/, "a backslash escapes only ASCII punctuation");
    } else {
      assert.ok(!MARKDOWN_CONTROL.includes(character), `unescaped ${character} in ${source}`);
    }
    rendered += source.charAt(index);
  }
  return rendered.replaceAll("\u00a0", " ");
}

/** The text that a browser shows for this HTML. */
function renderHtml(source: string): string {
  assert.doesNotMatch(source, /[<>]/);
  assert.doesNotMatch(
    source.replace(/&(?:lt|gt|amp);/g, "_"),
    /&[#A-Za-z]/,
    "a character reference survives",
  );
  return source.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&").replaceAll("\u00a0", " ");
}

Deno.test("plainLine() returns one line in which every character is visible (property)", () => {
  fc.assert(fc.property(anyText, (text) => {
    assert.doesNotMatch(
      plainLine(text, 10_000),
      /(?! )[\p{Cc}\p{Cf}\p{Cs}\p{Zs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/u,
    );
  }));
});

Deno.test("plainLine() truncates text that grows by escaping", () => {
  assert.ok(plainLine("\u{e0041}".repeat(60_000), 2000).length < 2100);
});

Deno.test.each([
  { name: "leaves a text that fits", text: "x".repeat(10), expected: "xxxxxxxxxx" },
  {
    name: "reports the truncated length",
    text: "x".repeat(11),
    expected: "xxxxxxxxxx… [TRUNCATED: 10 of 11 characters]",
  },
  {
    name: "does not split a surrogate pair",
    text: "x".repeat(9) + "🙂!",
    expected: "xxxxxxxxx… [TRUNCATED: 9 of 12 characters]",
  },
])("cutWithNote() $name", ({ text, expected }) => {
  assert.equal(cutWithNote(text, 10), expected);
});

Deno.test.each([
  { name: "a link", line: "[a](b)", expected: String.raw`\[a\]\(b\)` },
  { name: "emphasis", line: "*a* _b_", expected: String.raw`\*a\* \_b\_` },
  { name: "code, strikethrough and tables", line: "`a` ~b~ |c|", expected: "\\`a\\` \\~b\\~ \\|c\\|" },
  { name: "text that is already escaped", line: String.raw`\*`, expected: String.raw`\\\*` },
  { name: "tags and references", line: "<b> &lt;", expected: String.raw`\<b\> \&lt;` },
  { name: "a bullet", line: "- a - b", expected: String.raw`\- a - b` },
  { name: "a number", line: "1. a 2. b", expected: String.raw`1\. a 2. b` },
  { name: "a bullet after spaces", line: "  + a", expected: "\u00a0 \\+ a" },
  { name: "indented code", line: "    a", expected: "\u00a0\u00a0\u00a0 a" },
  { name: "a run of spaces", line: "a   b", expected: "a\u00a0\u00a0 b" },
  { name: "a card's own functions", line: "{{DATE(x)}}", expected: String.raw`{{DATE\(x\)}}` },
])("escapeMarkdown() escapes $name", ({ line, expected }) => {
  assert.equal(escapeMarkdown(line), expected);
});

Deno.test("escapeMarkdown() escapes all syntax and renders as the same line (property)", () => {
  const examples = HOSTILE_TEXTS.map((text): [string] => [plainLine(text, 10_000)]);
  fc.assert(
    fc.property(lines, (line) => {
      const source = escapeMarkdown(line);
      assert.equal(renderMarkdown(source), line);
      assert.doesNotMatch(
        source,
        /^[\u00a0 ]*(?:[-+*]|\d+[.)])[\u00a0 ]|^ |\s {1}\s/,
        "block syntax survives",
      );
    }),
    { examples },
  );
});

Deno.test.each([
  { name: "tags", line: "<b>x</b>", expected: "&lt;b&gt;x&lt;/b&gt;" },
  { name: "character references", line: "&lt; &#60;", expected: "&amp;lt; &amp;#60;" },
  { name: "no lone ampersand", line: "a && b 2>&1", expected: "a && b 2&gt;&1" },
])("escapeHtml() escapes $name", ({ line, expected }) => {
  assert.equal(escapeHtml(line), expected);
});

Deno.test("escapeHtml() escapes all tags and references and renders as the same line (property)", () => {
  fc.assert(
    fc.property(lines, (line) => assert.equal(renderHtml(escapeHtml(line)), line)),
    { examples: HOSTILE_TEXTS.map((text): [string] => [plainLine(text, 10_000)]) },
  );
});
