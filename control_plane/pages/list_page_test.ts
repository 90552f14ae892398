import assert from "node:assert/strict";
import fc from "fast-check";
import { anyCharacter, readHtml } from "@gateway/shared/testing";
import { HOSTILE, READ_AT, recordOf } from "../testing/sample_record.ts";
import { type ListPage, renderListPage } from "./list_page.tsx";
import { createHash } from "node:crypto";
import {
  pageHeaders,
  renderErrorPage,
  renderPage,
  renderUnauthenticatedPage,
  SCRIPT,
  STYLE,
} from "./page.tsx";

function render(approvals: ListPage["approvals"], approver = "approver-1") {
  return readHtml(renderListPage({ approvals, approver, now: READ_AT }), [STYLE, SCRIPT]);
}

const DENIED = recordOf({
  id: "1".repeat(32),
  status: "denied",
  decided_by: "approver-2",
  decided_at: "2026-01-02T03:04:35.000Z",
  expires_at: undefined,
});

Deno.test("renderListPage() shows an empty list", () => {
  const elements = render([]);
  assert.equal(elements.find(({ tag }) => tag === "title")?.text, "Approvals");
  assert.ok(elements.some(({ text }) => text === "No pending requests"));
  assert.ok(elements.every(({ tag }) => tag !== "table"));
});

Deno.test("renderListPage() shows pending requests first and their number in the title", () => {
  const elements = render([DENIED, recordOf(), recordOf({ id: "2".repeat(32) })]);
  assert.equal(elements.find(({ tag }) => tag === "title")?.text, "(2) Approvals");
  assert.deepEqual(elements.filter(({ tag }) => tag === "h2").map(({ text }) => text), [
    "2 pending requests",
    "Decided and expired requests",
  ]);
});

Deno.test("renderListPage() shows requester, end user, host, elevation, age and time left", () => {
  const elements = render([recordOf({ end_user: "alice@example.com", sudo: true, sudo_user: "postgres" })]);
  assert.deepEqual(elements.filter(({ tag }) => tag === "td").map(({ text }) => text.trim()), [
    "systemctl restart nginx",
    "web01",
    "sudo as postgres",
    "broker-1 for alice@example.com",
    "1 min requested 1 min ago",
    "Review: systemctl restart nginx on web01",
  ]);
});

Deno.test("renderListPage() shows access without a command and the number of identical requests", () => {
  const cells = render([
    recordOf({ command: "uptime", access: ["session:shell"], addr: "10.0.0.1:22", joined: ["f".repeat(32)] }),
    recordOf({ command: "cat > '/a'", access: ["file_transfer"], content_bytes: 12_345 }),
  ]).filter(({ tag }) => tag === "td").map(({ text }) => text.trim());
  assert.deepEqual([cells[0], cells[1], cells[5]], [
    "Interactive shell requested 2 times",
    "web01 10.0.0.1:22",
    "Review: Interactive shell on web01",
  ]);
  assert.equal(cells[6], "cat > '/a' transfers a file: writes 12,345 bytes");
});

Deno.test("renderListPage() shows whether an approval was collected", () => {
  const approved = recordOf({ status: "approved", decided_by: "approver-2", decided_at: DENIED.decided_at });
  const status = (fields: Partial<typeof approved>) =>
    render([{ ...approved, ...fields }]).filter(({ tag }) => tag === "td")[4]?.text;
  assert.match(status({}) ?? "", /not collected yet$/);
  assert.match(status({ collected: 1 }) ?? "", / collected$/);
  assert.match(status({ collected: 1, joined: ["f".repeat(32)] }) ?? "", /1 of 2 collected$/);
});

Deno.test("renderListPage() shows the status, approver and time of a decision", () => {
  const cells = render([DENIED]).filter(({ tag }) => tag === "td").map(({ text }) => text);
  assert.ok(cells.includes("Denied by approver-2, 30 s ago"), cells.join("|"));
});

Deno.test("renderListPage() marks the approver's own requests", () => {
  const link = (approver: string) =>
    render([recordOf({ end_user: "alice" })], approver).findLast(({ tag }) => tag === "a")?.text;
  assert.match(link("broker-1") ?? "", /^View own: /);
  assert.match(link("alice") ?? "", /^View own: /);
  assert.match(link("ALICE.") ?? "", /^View own: /, "however the name is written");
  assert.match(link("approver-1") ?? "", /^Review: /);
});

Deno.test("renderListPage() gives each request's link a distinct name in a table with headers", () => {
  const elements = render([recordOf(), DENIED]);
  const links = elements.filter(({ attributes }) => attributes["id"]?.startsWith("view-"));
  assert.deepEqual(links.map(({ attributes }) => attributes["href"]), [
    "/ui/approvals/00112233445566778899aabbccddeeff",
    `/ui/approvals/${"1".repeat(32)}`,
  ]);
  assert.ok(
    elements.filter(({ tag }) => tag === "th").every(({ attributes }) => attributes["scope"] === "col"),
  );
});

Deno.test("renderListPage() truncates long commands with a note", () => {
  const [command] = render([recordOf({ command: "x".repeat(61_440) })]).filter(({ tag }) => tag === "td");
  assert.equal(command?.text, `${"x".repeat(200)} … 61,240 more characters`);
});

Deno.test("renderListPage() shows at most 200 of 10,000 requests and counts the rest", () => {
  const many = Array.from(
    { length: 10_000 },
    (_, index) => recordOf({ id: String(index).padStart(32, "0") }),
  );
  const page = renderListPage({ approvals: many, approver: "approver-1", now: READ_AT });
  assert.ok(page.length < 500_000, String(page.length));
  assert.match(page, /9,?800 more: run <code>broker-ctl approval list/);
  assert.match(page, /<title>\(10000\) Approvals<\/title>/);
});

Deno.test.each(["status", "decided_by", "expires_at"] as const)(
  "renderListPage() changes its state if %s of a request changes, not with time",
  (field) => {
    const stateOf = (approvals: ListPage["approvals"], now = READ_AT) =>
      /data-state="([^"]+)"/.exec(renderListPage({ approvals, approver: "a", now }))?.[1];
    const before = stateOf([recordOf()]);
    assert.equal(stateOf([recordOf()], READ_AT + 5000), before);
    assert.notEqual(
      stateOf([recordOf({ [field]: field === "status" ? "expired" : "2026-01-02T03:09:05Z" })]),
      before,
    );
  },
);

const FIELDS = ["caller", "end_user", "host", "command", "sudo_user", "decided_by", "rule", "id"] as const;

Deno.test.each(HOSTILE)("renderListPage() escapes $name in every field", ({ text }) => {
  for (const field of FIELDS) {
    for (const status of ["pending", "denied"] as const) {
      const [hostile, harmless] = [text, "x"].map((value) =>
        tagsOf(render([recordOf({ sudo: true, end_user: "y", decided_by: "z", status, [field]: value })]))
      );
      assert.deepEqual(hostile, harmless, field);
    }
  }
});

Deno.test("renderListPage() escapes any text in every field and in the approver's name (property)", () => {
  const texts = fc.string({ unit: anyCharacter(fc), maxLength: 40 });
  const fields = fc.record(Object.fromEntries(FIELDS.map((field) => [field, texts])));
  fc.assert(fc.property(fields, texts, (hostile, approver) => {
    const found = tagsOf(render([recordOf({ sudo: true, ...hostile })], approver));
    assert.deepEqual(found, tagsOf(render([recordOf({ sudo: true, end_user: "y" })])));
  }));
});

/** The elements of a page, except those that mark characters. */
function tagsOf(elements: ReturnType<typeof readHtml>): readonly string[] {
  return elements
    .filter(({ tag, attributes }) =>
      tag !== "mark" && attributes["class"] !== "foreign" && attributes["class"] !== "rest"
    )
    .map(({ tag, attributes }) => `${tag} ${Object.keys(attributes).join(" ")}`);
}

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const PAGE = { title: "Approvals", approver: "approver-1", now: NOW, main: "x" };

const read = (page: string) => readHtml(page, [STYLE, SCRIPT]);
const hashOf = (source: string) => `'sha256-${createHash("sha256").update(source).digest("base64")}'`;

Deno.test("pageHeaders() permits only our script and style by their hashes", () => {
  const [, script = ""] = /<script type="module">([^]*)<\/script>/.exec(renderPage(PAGE)) ?? [];
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

Deno.test("SCRIPT and STYLE contain no end tag and load no external resources", () => {
  assert.doesNotMatch(
    SCRIPT,
    /<\/script|<!--|https?:|innerHTML|outerHTML|insertAdjacentHTML|\beval\b|Function\(/i,
  );
  assert.doesNotMatch(STYLE, /<|url\(|@import|https?:/i);
});

Deno.test("renderPage() has landmarks, a language, a skip link and the approver's name", () => {
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
  assert.ok(find("header")[0]?.text.includes("Signed in as approver-1"));
  assert.equal(elements.find(({ attributes }) => attributes["role"] === "status")?.attributes["id"], "news");
});

Deno.test("renderPage() loads no external resources", () => {
  for (const { tag, attributes } of read(renderPage(PAGE))) {
    assert.ok(!["link", "img", "iframe", "object", "embed", "base"].includes(tag), tag);
    assert.ok(!("src" in attributes || "style" in attributes), tag);
  }
});

Deno.test("renderPage() reloads only without scripts and only if reloadSeconds is set", () => {
  const live = { state: [1], news: "x", refreshSeconds: 3 };
  assert.doesNotMatch(renderPage({ ...PAGE, live }), /http-equiv/);
  assert.match(
    renderPage({ ...PAGE, live: { ...live, reloadSeconds: 10 } }),
    /<noscript><meta http-equiv="refresh" content="10"\/><\/noscript>/,
  );
});

Deno.test("renderPage() changes data-state if the content changes", () => {
  const stateOf = (state: readonly unknown[]) =>
    read(renderPage({ ...PAGE, live: { state, news: "x", refreshSeconds: 3 } }))
      .find(({ tag }) => tag === "main")?.attributes["data-state"];
  assert.equal(stateOf(["a", 1]), stateOf(["a", 1]));
  assert.notEqual(stateOf(["a", 1]), stateOf(["a", 2]));
});

Deno.test("renderErrorPage() escapes the problem's text", () => {
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

Deno.test("renderErrorPage() explains client certificates to non-approvers", () => {
  const page = { status: 403, title: "Forbidden", detail: "not authorised", approver: "broker-1", now: NOW };
  assert.match(renderErrorPage({ ...page, isApprover: false }), /approval\.callers/);
  assert.doesNotMatch(renderErrorPage({ ...page, isApprover: true }), /approval\.callers/);
});

Deno.test("renderUnauthenticatedPage() links to the sign-in only if there is one", () => {
  const page = { title: "Unauthenticated", detail: "A certificate is required", now: NOW };
  const signIn = "https://approve.example/ui/approvals";
  const linksOf = (text: string) => read(text).flatMap(({ attributes }) => attributes["href"] ?? []);
  const common = ["#main", "/ui/approvals"];
  assert.deepEqual(linksOf(renderUnauthenticatedPage(page)), common);
  assert.deepEqual(linksOf(renderUnauthenticatedPage({ ...page, signIn })), [...common, signIn]);
});

Deno.test("the pages' style uses only custom properties of shared/ui", () => {
  for (const [, name = ""] of STYLE.matchAll(/var\((--[a-z0-9-]+)\)/g)) {
    assert.ok(STYLE.includes(`${name}:`), name);
  }
});
