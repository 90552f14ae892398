import assert from "node:assert/strict";
import fc from "fast-check";
import { readHtml } from "../testing/html_reader.ts";
import { HOSTILE, READ_AT, recordOf } from "../testing/sample_record.ts";
import { type ListPage, renderListPage } from "./list_page.ts";
import { SCRIPT } from "./script.ts";
import { STYLE } from "./style.ts";

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

Deno.test("renderListPage() says when nothing waits", () => {
  const elements = render([]);
  assert.equal(elements.find(({ tag }) => tag === "title")?.text, "Approvals");
  assert.ok(elements.some(({ text }) => text === "No request waits for a decision."));
  assert.ok(elements.every(({ tag }) => tag !== "table"));
});

Deno.test("renderListPage() shows what waits first, and how many in the title", () => {
  const elements = render([DENIED, recordOf(), recordOf({ id: "2".repeat(32) })]);
  assert.equal(elements.find(({ tag }) => tag === "title")?.text, "(2) Approvals");
  assert.deepEqual(elements.filter(({ tag }) => tag === "h2").map(({ text }) => text), [
    "2 requests wait for a decision",
    "Decided and expired",
  ]);
});

Deno.test("renderListPage() shows who asks, on whose behalf, where, elevation, age and time left", () => {
  const elements = render([recordOf({ end_user: "alice@example.com", sudo: true, sudo_user: "postgres" })]);
  assert.deepEqual(elements.filter(({ tag }) => tag === "td").map(({ text }) => text.trim()), [
    "systemctl restart nginx",
    "web01",
    "sudo as postgres",
    "broker-1 for alice@example.com",
    "1 min asked 1 min ago",
    "Review: systemctl restart nginx on web01",
  ]);
});

Deno.test("renderListPage() says what is asked where no command says it, and how often", () => {
  const cells = render([
    recordOf({ command: "uptime", access: ["session:shell"], addr: "10.0.0.1:22", joined: ["f".repeat(32)] }),
    recordOf({ command: "cat > '/a'", access: ["file_transfer"], content_bytes: 12_345 }),
  ]).filter(({ tag }) => tag === "td").map(({ text }) => text.trim());
  assert.deepEqual([cells[0], cells[1], cells[5]], [
    "Interactive shell asked for 2 times",
    "web01 10.0.0.1:22",
    "Review: Interactive shell on web01",
  ]);
  assert.equal(cells[6], "cat > '/a' moves a file: writes 12,345 bytes");
});

Deno.test("renderListPage() says whether what was approved is collected", () => {
  const approved = recordOf({ status: "approved", decided_by: "approver-2", decided_at: DENIED.decided_at });
  const status = (fields: Partial<typeof approved>) =>
    render([{ ...approved, ...fields }]).filter(({ tag }) => tag === "td")[4]?.text;
  assert.match(status({}) ?? "", /not collected yet$/);
  assert.match(status({ collected: 1 }) ?? "", / collected$/);
  assert.match(status({ collected: 1, joined: ["f".repeat(32)] }) ?? "", /1 of 2 collected$/);
});

Deno.test("renderListPage() says in words what became of a request, by whom and when", () => {
  const cells = render([DENIED]).filter(({ tag }) => tag === "td").map(({ text }) => text);
  assert.ok(cells.includes("✕ Denied by approver-2, 30 s ago"), cells.join("|"));
});

Deno.test("renderListPage() names own requests as such", () => {
  const link = (approver: string) =>
    render([recordOf({ end_user: "alice" })], approver).findLast(({ tag }) => tag === "a")?.text;
  assert.match(link("broker-1") ?? "", /^View your own: /);
  assert.match(link("alice") ?? "", /^View your own: /);
  assert.match(link("ALICE.") ?? "", /^View your own: /, "however the name is written");
  assert.match(link("approver-1") ?? "", /^Review: /);
});

Deno.test("renderListPage() links each request by a name of its own, in a table with headers", () => {
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

Deno.test("renderListPage() names the roles of a table, which narrow screens lay out as blocks", () => {
  const roles = {
    table: "table",
    thead: "rowgroup",
    tbody: "rowgroup",
    tr: "row",
    th: "columnheader",
    td: "cell",
  };
  const elements = render([recordOf(), DENIED]);
  for (const [tag, role] of Object.entries(roles)) {
    const found = elements.filter((element) => element.tag === tag);
    assert.ok(found.length >= 2 && found.every(({ attributes }) => attributes["role"] === role), tag);
  }
});

Deno.test("renderListPage() cuts long commands and says so", () => {
  const [command] = render([recordOf({ command: "x".repeat(61_440) })]).filter(({ tag }) => tag === "td");
  assert.equal(command?.text, `${"x".repeat(200)} … 61,240 more characters`);
});

Deno.test("renderListPage() keeps 10,000 requests to a page that can be read, and counts the rest", () => {
  const many = Array.from(
    { length: 10_000 },
    (_, index) => recordOf({ id: String(index).padStart(32, "0") }),
  );
  const page = renderListPage({ approvals: many, approver: "approver-1", now: READ_AT });
  assert.ok(page.length < 500_000, String(page.length));
  assert.match(page, /9,?800 more are not shown here/);
  assert.match(page, /<title>\(10000\) Approvals<\/title>/);
});

Deno.test.each(["status", "decided_by", "expires_at"] as const)(
  "renderListPage() is replaced when %s of a request changes, not when time passes",
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

Deno.test.each(HOSTILE)("renderListPage() makes text of $name in every field", ({ text }) => {
  for (const field of FIELDS) {
    for (const status of ["pending", "denied"] as const) {
      const [hostile, harmless] = [text, "x"].map((value) =>
        tagsOf(render([recordOf({ sudo: true, end_user: "y", decided_by: "z", status, [field]: value })]))
      );
      assert.deepEqual(hostile, harmless, field);
    }
  }
});

Deno.test("renderListPage() makes text of everything, the reader's name included", () => {
  const texts = fc.string({ unit: "binary", maxLength: 40 });
  const fields = fc.record(Object.fromEntries(FIELDS.map((field) => [field, texts])));
  fc.assert(fc.property(fields, texts, (hostile, approver) => {
    const found = tagsOf(render([recordOf({ sudo: true, ...hostile })], approver));
    assert.deepEqual(found, tagsOf(render([recordOf({ sudo: true, end_user: "y" })])));
  }));
});

/** The elements of a page without those that mark characters. */
function tagsOf(elements: ReturnType<typeof readHtml>): readonly string[] {
  return elements
    .filter(({ tag, attributes }) =>
      tag !== "mark" && attributes["class"] !== "foreign" && attributes["class"] !== "rest"
    )
    .map(({ tag, attributes }) => `${tag} ${Object.keys(attributes).join(" ")}`);
}
