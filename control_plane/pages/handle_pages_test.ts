import assert from "node:assert/strict";
import { allow } from "../testing/fake_signer.ts";
import { startControlPlane, startGated } from "../testing/memory_control_plane.ts";
import { pageHeaders } from "./page.tsx";
import { parseDecisionForm, readFields } from "./decision_form.tsx";

const FORM = "application/x-www-form-urlencoded";
const BROWSER = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const OUR_PAGE = { ...BROWSER, host: "cp:7443", "sec-fetch-site": "same-origin", origin: "null" };

async function startPages(config = {}) {
  const plane = await startGated(config);
  const id = await plane.park({ command: "rm <b>x</b>" });
  const request = (method: string, path: string, init: RequestInit, cn: string) =>
    plane.send(new Request(`https://localhost${path}`, { ...init, method }), cn);
  return {
    ...plane,
    id,
    page: (path: string, cn = "approver-1", method = "GET", headers: Record<string, string> = BROWSER) =>
      request(method, path, { headers }, cn),
    submit: (
      body: string,
      { path = `/ui/approvals/${id}`, cn = "approver-1", headers = {} }: Submission = {},
    ) => request("POST", path, { body, headers: { "content-type": FORM, ...OUR_PAGE, ...headers } }, cn),
    status: () => {
      const approval = plane.registry.find(id);
      return approval === undefined ? undefined : plane.registry.describe(approval);
    },
  };
}

interface Submission {
  readonly path?: string;
  readonly cn?: string;
  readonly headers?: Record<string, string>;
}

Deno.test("GET /ui/approvals lists pending requests with the headers of a page", async () => {
  const { page, id } = await startPages();
  const { status, headers, text } = await page("/ui/approvals");
  assert.equal(status, 200);
  assert.match(text, /<title>\(1\) Approvals<\/title>/);
  assert.ok(text.includes(`/ui/approvals/${id}`) && text.includes("rm &lt;b>x&lt;/b>"));
  for (const [name, value] of Object.entries(pageHeaders())) assert.equal(headers.get(name), value);
  assert.equal(headers.get("access-control-allow-origin"), null);
});

Deno.test("GET /ui/approvals/{id} shows the approval record and the request", async () => {
  const { page, park } = await startPages();
  const { status, headers, text } = await page(`/ui/approvals/${await park({ pty: true, ttl_seconds: 90 })}`);
  assert.equal(status, 200);
  assert.match(text, /one command, with a terminal/);
  assert.match(text, /1 min 30 s/);
  for (const [name, value] of Object.entries(pageHeaders())) assert.equal(headers.get(name), value);
});

Deno.test("the pages contain no public key and no token", async () => {
  const { page, park } = await startPages();
  const { text } = await page(`/ui/approvals/${await park({ bearer_token: "secret-token" })}`);
  assert.doesNotMatch(text, /secret-token|ssh-ed25519/);
});

Deno.test.each([
  { method: "GET", path: "/ui/approvals" },
  { method: "GET", path: "/ui/approvals/x" },
  { method: "POST", path: "/ui/approvals/x" },
])("$method $path returns 403 to non-approvers and records a denial", async ({ method, path }) => {
  const { page, log } = await startPages();
  const { status, headers, text } = await page(path, "broker-1", method, OUR_PAGE);
  assert.equal(status, 403);
  assert.equal(headers.get("content-security-policy"), pageHeaders()["content-security-policy"]);
  assert.match(text, /not authorised/);
  assert.match(text, /approval\.callers/);
  assert.doesNotMatch(text, /rm &lt;b/);
  const entry = log.entries.at(-1);
  assert.deepEqual([entry?.caller, entry?.outcome], ["broker-1", "denied"]);
});

Deno.test("GET /ui/approvals/{id} returns 404 for an unknown ID, as HTML or as a JSON problem", async () => {
  const { page } = await startPages();
  const asPage = await page("/ui/approvals/0123");
  assert.equal(asPage.status, 404);
  assert.match(asPage.headers.get("content-type") ?? "", /^text\/html/);
  assert.match(asPage.text, /cannot find approval (?:"|&quot;)0123(?:"|&quot;): unknown or purged/);
  const asProblem = await page("/ui/approvals/0123", "approver-1", "GET", { accept: "*/*" });
  assert.deepEqual([asProblem.status, asProblem.body.code, asProblem.body.detail], [
    404,
    "not_found",
    'cannot find approval "0123": unknown or purged',
  ]);
});

Deno.test("GET /ui/approvals/{id} returns 404 for a purged request", async () => {
  const { page, id, clock } = await startPages();
  await clock.advance(241_000);
  await page("/ui/approvals");
  assert.equal((await page(`/ui/approvals/${id}`)).status, 404);
});

Deno.test("GET /ui/approvals/{id} escapes any ID in the page", async () => {
  const { page } = await startPages();
  const { status, text } = await page(`/ui/approvals/${encodeURIComponent('"><script>alert(1)</script>')}`);
  assert.equal(status, 404);
  assert.doesNotMatch(text, /<script>alert/);
});

Deno.test.each([
  {
    name: "approve",
    body: "decision=approve&ttl=3600",
    status: "approved",
    learn: undefined,
    outcome: "approval-decision-allow",
  },
  {
    name: "deny",
    body: "decision=deny&ttl=3600",
    status: "denied",
    learn: undefined,
    outcome: "approval-denied",
  },
  {
    name: "learn",
    body: "decision=learn&ttl=other&amount=2&unit=3600",
    status: "approved",
    learn: 7_200_000_000_000n,
    outcome: "approval-decision-allow-learn",
  },
])(
  "POST /ui/approvals/{id} with $name decides and redirects to the page",
  async ({ body, status, learn, outcome }) => {
    const { submit, status: recordOf, id, log } = await startPages();
    const answer = await submit(body);
    assert.deepEqual([answer.status, answer.headers.get("location"), answer.text], [
      303,
      `/ui/approvals/${id}`,
      "",
    ]);
    const record = recordOf();
    assert.deepEqual([record?.status, record?.decided_by, record?.learn_ttl], [status, "approver-1", learn]);
    const entry = log.entries.at(-1);
    assert.deepEqual([entry?.outcome, entry?.approved_by, entry?.approval_id], [outcome, "approver-1", id]);
  },
);

Deno.test("a request that is only unusual cannot be learned, and its form returns 400", async () => {
  const { sign, signer, park, page, submit, registry } = await startPages({ behavior: { mode: "enforce" } });
  signer.reply = allow;
  assert.equal((await sign()).status, 200);
  const path = `/ui/approvals/${await park({ command: "df", host: "web02" })}`;
  assert.doesNotMatch((await page(path)).text, /value="learn"/);
  const { status, text } = await submit("decision=learn&ttl=900", { path });
  assert.equal(status, 400);
  assert.match(text, /role="alert"[^>]*>Decision failed: <[^>]*>nothing to learn: /);
  assert.equal(registry.pendingCount(), 2);
});

Deno.test("the page of a decided request links to the oldest one that its reader can decide", async () => {
  const { park, page, submit, clock, id } = await startPages();
  const next = async (cn = "approver-1") =>
    /id="next" href="\/ui\/approvals\/([0-9a-f]+)"/.exec((await page(`/ui/approvals/${id}`, cn)).text)?.[1];
  await clock.advance(1000);
  const own = await park({}, "both");
  await clock.advance(1000);
  const other = await park();
  assert.equal(await next(), undefined, "not while it is pending");
  await submit("decision=deny");
  assert.deepEqual([await next(), await next("both")], [own, other]);
  await submit("decision=deny", { path: `/ui/approvals/${own}` });
  assert.equal(await next(), other);
  await submit("decision=deny", { path: `/ui/approvals/${other}` });
  assert.equal(await next(), undefined);
});

Deno.test.each<{ name: string; headers: Record<string, string>; status: number }>([
  { name: "of our page", headers: {}, status: 303 },
  { name: "of our page with its origin", headers: { origin: "https://cp:7443" }, status: 303 },
  { name: "of another site", headers: { "sec-fetch-site": "cross-site" }, status: 403 },
  { name: "typed as an address", headers: { "sec-fetch-site": "none", origin: "" }, status: 403 },
])("POST /ui/approvals/{id} $name returns $status (CSRF)", async ({ headers, status }) => {
  const { submit, registry } = await startPages();
  const answer = await submit("decision=approve", { headers });
  assert.equal(answer.status, status);
  assert.equal(registry.pendingCount(), status === 303 ? 0 : 1);
});

Deno.test("POST /ui/approvals/{id} without an origin header returns 403", async () => {
  const { send, id, registry } = await startPages();
  const request = new Request(`https://localhost/ui/approvals/${id}`, {
    method: "POST",
    body: "decision=approve",
    headers: { "content-type": FORM, host: "cp:7443" },
  });
  assert.equal((await send(request, "approver-1")).status, 403);
  assert.equal(registry.pendingCount(), 1);
});

Deno.test.each(["text/plain", "multipart/form-data", ""])(
  "POST /ui/approvals/{id} returns 415 for the content type %s",
  async (type) => {
    const { submit, registry } = await startPages();
    assert.equal((await submit("decision=approve", { headers: { "content-type": type } })).status, 415);
    assert.equal(registry.pendingCount(), 1);
  },
);

Deno.test.each(["/", "/ui", "/ui/", "/ui/approvals/"])("GET %s redirects to the list", async (path) => {
  const plane = await startControlPlane();
  const { status, headers } = await plane.get(path, "approver-1");
  assert.deepEqual([status, headers.get("location")], [303, "/ui/approvals"]);
});

Deno.test("POST /ui/approvals/{id} returns 413 for a body above 16 KiB", async () => {
  const { submit, registry } = await startPages();
  assert.equal((await submit(`decision=approve&x=${"x".repeat(16_384)}`)).status, 413);
  assert.equal(registry.pendingCount(), 1);
});

Deno.test("POST /ui/approvals/{id} without a learning time returns 400 and keeps the form values", async () => {
  const { submit, registry } = await startPages();
  const { status, text, headers } = await submit("decision=learn&ttl=other&amount=%22%3E%3Cb%3E&unit=60");
  assert.equal(status, 400);
  assert.equal(headers.get("content-security-policy"), pageHeaders()["content-security-policy"]);
  assert.match(text, /role="alert"[^>]*>Decision failed: .*Enter how long to learn/);
  assert.match(text, /name="amount" id="amount" value="&quot;>&lt;b>"/);
  assert.match(text, /<option [^>]*selected[^>]*>custom</);
  assert.equal(registry.pendingCount(), 1);
});

Deno.test("POST /ui/approvals/{id} returns 403 for an own request (four-eyes) and records it", async () => {
  const { submit, park, log, registry } = await startPages();
  const own = await park({}, "both");
  const { status, text } = await submit("decision=approve", { path: `/ui/approvals/${own}`, cn: "both" });
  assert.equal(status, 403);
  assert.match(text, /self-approval not allowed/);
  assert.match(text, /your own request/);
  assert.doesNotMatch(text, /<form/);
  assert.equal(log.entries.at(-1)?.outcome, "self-approval-rejected");
  assert.equal(registry.pendingCount(), 2);
});

Deno.test("POST /ui/approvals/{id} returns 409 for a decided request and shows its approver", async () => {
  const { submit, id, decide, status } = await startPages();
  await decide(id, { approve: false }, "approver-2");
  const answer = await submit("decision=approve");
  assert.equal(answer.status, 409);
  assert.match(answer.text, /is not pending: it is denied/);
  assert.match(answer.text, /Denied by <b>.*approver-2/);
  assert.equal(status()?.status, "denied");
});

Deno.test("POST /ui/approvals/{id} returns a JSON problem to clients that are not browsers", async () => {
  const { submit } = await startPages();
  const headers = { accept: "*/*", "content-type": "text/plain" };
  const { body, status } = await submit("decision=approve", { headers });
  assert.deepEqual([status, body.code], [415, "unsupported_media_type"]);
});

const TTL = "&ttl=3600&amount=2&unit=3600";

Deno.test.each<
  {
    name: string;
    body: string;
    approve?: boolean;
    learn?: boolean;
    ttlSeconds?: number;
    comment?: string;
    shown?: readonly string[];
  }
>([
  {
    name: "returns a comment without surrounding spaces",
    body: "decision=approve&comment=+looks+fine%0a",
    approve: true,
    comment: "looks fine",
  },
  {
    name: "returns the IDs of the shown requests",
    body: "decision=approve&shown=a&shown=b",
    approve: true,
    shown: ["a", "b"],
  },
  { name: "approves", body: `decision=approve${TTL}`, approve: true },
  { name: "denies", body: `decision=deny${TTL}` },
  { name: "learns", body: `decision=learn${TTL}`, approve: true, learn: true, ttlSeconds: 3600 },
  {
    name: "learns for a custom time",
    body: "decision=learn&ttl=other&amount=10&unit=60",
    approve: true,
    learn: true,
    ttlSeconds: 600,
  },
  {
    name: "learns for days",
    body: "decision=learn&ttl=other&amount=007&unit=86400",
    approve: true,
    learn: true,
    ttlSeconds: 604_800,
  },
  { name: "ignores fields it does not know", body: "decision=deny&x=1&approve=true" },
])("parseDecisionForm() $name", (row) => {
  const { approve = false, learn = false, ttlSeconds = 0, comment = "", shown = [] } = row;
  const expected = { approve, learn, ttl_seconds: ttlSeconds, comment, shown_ids: shown };
  assert.deepEqual(parseDecisionForm(row.body), expected);
});

const NO_TIME = /Enter how long to learn: a whole number/;

Deno.test.each([
  { name: "an empty form", body: "", detail: /approve or to deny/ },
  { name: "no decision", body: "ttl=3600", detail: /approve or to deny/ },
  { name: "another decision", body: "decision=yes", detail: /approve or to deny/ },
  { name: "an upper case decision", body: "decision=APPROVE", detail: /approve or to deny/ },
  { name: "JSON", body: '{"approve":true}', detail: /approve or to deny/ },
  { name: "two decisions", body: "decision=deny&decision=approve", detail: /decision more than once/ },
  { name: "two times", body: "decision=learn&ttl=60&ttl=3600", detail: /ttl more than once/ },
  { name: "no time", body: "decision=learn", detail: NO_TIME },
  { name: "an empty time", body: "decision=learn&ttl=", detail: NO_TIME },
  { name: "no number", body: "decision=learn&ttl=other&amount=&unit=60", detail: NO_TIME },
  { name: "no unit", body: "decision=learn&ttl=other&amount=5", detail: NO_TIME },
  { name: "zero units", body: "decision=learn&ttl=other&amount=0&unit=60", detail: NO_TIME },
  { name: "a negative time", body: "decision=learn&ttl=-60", detail: NO_TIME },
  { name: "a fraction", body: "decision=learn&ttl=other&amount=1.5&unit=3600", detail: NO_TIME },
  { name: "an exponent", body: "decision=learn&ttl=1e3", detail: NO_TIME },
  { name: "hexadecimal", body: "decision=learn&ttl=0x10", detail: NO_TIME },
  { name: "spaces", body: "decision=learn&ttl=+60", detail: NO_TIME },
  { name: "a number with too many digits", body: `decision=learn&ttl=${"9".repeat(30)}`, detail: NO_TIME },
  {
    name: "more than 100 years",
    body: "decision=learn&ttl=other&amount=9999999999&unit=86400",
    detail: /at most 100 years/,
  },
])("parseDecisionForm() rejects $name", ({ body, detail }) => {
  assert.throws(() => parseDecisionForm(body), { code: "invalid_request", message: detail });
});

Deno.test("readFields() returns the entered values within limits", () => {
  assert.deepEqual(readFields("ttl=other&amount=x&unit=60&comment=y"), {
    ttl: "other",
    amount: "x",
    unit: "60",
    comment: "y",
  });
  assert.equal(readFields(`amount=${"9".repeat(4000)}`).amount.length, 20);
});
