import assert from "node:assert/strict";
import { type FakeReply, refusal } from "../testing/fake_signer.ts";
import { post, startControlPlane } from "../testing/memory_control_plane.ts";
import { checkSameOrigin, type RequestOrigin } from "./roles.ts";

const WEB01 = {
  addr: "10.0.0.1:22",
  user: "deploy",
  host_key: "ssh-ed25519 AAAA",
  jump: "bastion",
  allow_sudo: true,
  allow_pty: true,
  allow_file_transfer: true,
  groups: ["web"],
};

Deno.test("GET /v1/hosts returns the signer's list for the broker with all fields (I20)", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ body: { web01: WEB01, web02: { ...WEB01, groups: [] } } });
  const { status, body } = await plane.get("/v1/hosts", "broker-1");
  assert.deepEqual([status, body], [200, { web01: WEB01, web02: { ...WEB01, groups: [] } }]);
  const [request] = plane.signer.requests;
  assert.deepEqual([request?.path, request?.headers], ["/v1/hosts", { "x-on-behalf-of": "broker-1" }]);
});

Deno.test("GET /v1/hosts forwards the broker's If-None-Match and the signer's 304", async () => {
  const plane = await startControlPlane();
  const ask = (has: string) =>
    plane.send(new Request("https://cp/v1/hosts", { headers: { "if-none-match": has } }), "broker-1");
  plane.signer.reply = () => ({ body: { web01: WEB01 }, headers: { etag: '"a"' } });
  const first = await plane.get("/v1/hosts", "broker-1");
  assert.deepEqual([first.headers.get("etag"), first.headers.get("cache-control")], [
    '"a"',
    "private, no-cache",
  ]);
  plane.signer.reply = () => ({ status: 304, headers: { etag: '"a"' } });
  const second = await ask('"x", "a"');
  assert.deepEqual([second.status, second.headers.get("etag"), second.text], [304, '"a"', ""]);
  assert.deepEqual(plane.signer.requests.at(-1)?.headers, {
    "x-on-behalf-of": "broker-1",
    "if-none-match": '"x", "a"',
  });
  for (const has of ['"a', '"x"\t, "a"', "a"]) {
    plane.signer.reply = () => ({ body: { web01: WEB01 }, headers: { etag: '"a"' } });
    const { status, body } = await ask(has);
    assert.deepEqual([status, body], [200, { web01: WEB01 }], "a header that can't be understood is none");
    assert.deepEqual(plane.signer.requests.at(-1)?.headers, { "x-on-behalf-of": "broker-1" });
  }
});

Deno.test.each([
  { name: "that was not requested", has: undefined, headers: { etag: '"a"' } },
  { name: "of a list that the broker does not have", has: '"a"', headers: { etag: '"b"' } },
  { name: "without a tag", has: '"a"', headers: {} },
])("GET /v1/hosts returns 502 if the signer sends a 304 $name", async ({ has, headers }) => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ status: 304, headers: { ...headers } });
  const init = has === undefined ? {} : { headers: { "if-none-match": has } };
  assert.equal((await plane.send(new Request("https://cp/v1/hosts", init), "broker-1")).status, 502);
});

Deno.test("GET /v1/clusters returns an empty list if the signer has no such route", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => refusal(404, "not_found", "no such route");
  const { status, body } = await plane.get("/v1/clusters", "broker-1");
  assert.deepEqual([status, body], [200, {}]);
});

Deno.test("GET /v1/clusters returns the signer's clusters", async () => {
  const plane = await startControlPlane();
  const clusters = {
    prod: {
      api_server: "https://k8s",
      ca_cert_pem: "x",
      groups: ["a"],
      extra_resources: [{ resource: "w", group: "g", version: "v1", kind: "W", namespaced: true }],
      policy: ["get: pods in namespace web"],
    },
  };
  plane.signer.reply = () => ({ body: clusters });
  assert.deepEqual((await plane.get("/v1/clusters?policy=true", "broker-1")).body, clusters);
  assert.equal(plane.signer.requests[0]?.path, "/v1/clusters?policy=true");
  assert.deepEqual(plane.signer.requests[0]?.headers, { "x-on-behalf-of": "broker-1" });
});

Deno.test("GET /v1/revocations returns freezes without other callers, actors and reasons (K8)", async () => {
  const plane = await startControlPlane();
  const frozen_at = "2026-01-02T03:04:05Z";
  const own = { kind: "caller", value: "Broker-1", frozen_at };
  const user = { kind: "end_user", value: "alice", frozen_at };
  const other = { kind: "caller", value: "broker-2", frozen_at };
  const list = [own, other, user].map((entry) => ({ ...entry, reason: "incident", frozen_by: "operator" }));
  plane.signer.reply = () => ({ body: list });
  const { status, body } = await plane.get("/v1/revocations", "broker-1");
  assert.deepEqual([status, body], [200, [own, user]]);
});

Deno.test("GET /v1/revocations returns 502 for an unknown kind", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ body: [{ kind: "host", value: "x", frozen_at: "2026-01-02T03:04:05Z" }] });
  assert.equal((await plane.get("/v1/revocations", "broker-1")).status, 502);
});

Deno.test("POST /v1/revocations/serials forwards exact serials for the requesting broker only", async () => {
  const plane = await startControlPlane();
  const revoked = { status: "ok", revoked: 1, krl_version: 9 };
  plane.signer.reply = () => ({ body: revoked });
  const serials = '{"serials":[18446744073709551615],"reason":"x","on_behalf_of":"broker-2"}';
  const answer = await plane.send(post("/v1/revocations/serials", serials), "broker-1");
  assert.deepEqual([answer.status, answer.body], [200, revoked]);
  const [asked] = plane.signer.requests;
  assert.deepEqual([asked?.path, asked?.headers], ["/v1/revocations/serials", {
    "x-on-behalf-of": "broker-1",
  }]);
  assert.deepEqual(asked?.body, { serials: [2n ** 64n - 1n], reason: "x" });
});

Deno.test("POST /v1/revocations/serials returns 403 to an approver and 400 for an invalid serial", async () => {
  const plane = await startControlPlane();
  const send = (body: string, cn: string) => plane.send(post("/v1/revocations/serials", body), cn);
  assert.equal((await send('{"serials":[1]}', "approver-1")).status, 403);
  assert.equal((await send('{"serials":[0]}', "broker-1")).status, 400);
  assert.deepEqual(plane.signer.requests, []);
});

Deno.test("POST /v1/revocations/requests is forwarded for the requesting broker only", async () => {
  const plane = await startControlPlane();
  const revoked = { status: "ok", revoked: 1, krl_version: 9 };
  plane.signer.reply = () => ({ body: revoked });
  const path = "/v1/revocations/requests";
  const named = { request_ids: ["r-1", "r-2"], reason: "answer-lost" };
  const answer = await plane.send(post(path, { ...named, on_behalf_of: "broker-2" }), "broker-1");
  assert.deepEqual([answer.status, answer.body], [200, revoked]);
  const [asked] = plane.signer.requests;
  assert.deepEqual([asked?.path, asked?.headers, asked?.body], [
    path,
    { "x-on-behalf-of": "broker-1" },
    named,
  ]);
  assert.equal((await plane.send(post(path, named), "approver-1")).status, 403);
  assert.equal((await plane.send(post(path, { request_ids: ["a b"] }), "broker-1")).status, 400);
  assert.equal(plane.signer.requests.length, 1);
});

const REPORT = { instance: "0123456789abcdef", sessions: [] };

Deno.test.each<{ name: string; reply?: FakeReply; body?: unknown; cn?: string; status: number }>([
  { name: "a broker", status: 200 },
  { name: "an approver", cn: "approver-1", status: 403 },
  { name: "an invalid report", body: { ...REPORT, sessions: [{}] }, status: 400 },
  { name: "a large report", body: { ...REPORT, more: "x".repeat(1 << 20) }, status: 413 },
  { name: "an old signer", reply: refusal(404, "not_found", "no such route"), status: 502 },
  { name: "a signer that limits reports", reply: refusal(429, "rate_limited", "x"), status: 429 },
  { name: "a broken signer", reply: { body: "x" }, status: 502 },
])("POST /v1/sessions with $name returns $status", async ({ reply, body, cn = "broker-1", status }) => {
  const plane = await startControlPlane();
  plane.signer.reply = () => reply ?? ({ body: { status: "ok" } });
  const sent = body ?? { ...REPORT, caller: "broker-2" };
  assert.equal((await plane.send(post("/v1/sessions", sent), cn)).status, status);
  const isForwarded = body === undefined && cn === "broker-1";
  const asked = plane.signer.requests.map(({ path, headers, body }) => ({ path, headers, body }));
  const expected = { path: "/v1/sessions", headers: { "x-on-behalf-of": cn }, body: REPORT };
  assert.deepEqual(asked, isForwarded ? [expected] : []);
  assert.equal((await plane.get("/v1/sessions", "broker-1")).status, 405);
});

const ROUTES = ["/v1/hosts", "/v1/clusters", "/v1/revocations"];

Deno.test.each<{ name: string; reply: FakeReply; status: number }>([
  { name: "400", reply: refusal(400, "invalid_request", "x"), status: 400 },
  { name: "403", reply: refusal(403, "frozen", "subject is frozen"), status: 403 },
  { name: "429", reply: refusal(429, "rate_limited", "x", { "retry-after": "3" }), status: 429 },
  { name: "500", reply: refusal(500, "internal", "x"), status: 502 },
  { name: "an answer of another shape", reply: { body: "x" }, status: 502 },
])("GET routes answer the signer's $name with $status", async ({ reply, status }) => {
  const plane = await startControlPlane();
  plane.signer.reply = () => reply;
  for (const route of ROUTES) assert.equal((await plane.get(route, "broker-1")).status, status, route);
});

Deno.test("GET /v1/hosts?policy=true forwards the query and returns all fields of the rules", async () => {
  const plane = await startControlPlane();
  const policy = {
    commands: "allowlist",
    enforcement: "enforce",
    shell_parse: true,
    allow: ["^uptime$"],
    allow_omitted: 1,
    some_denied: true,
    require_approval: ["^reboot$"],
    require_approval_omitted: 2,
    sudo_users: ["root"],
    session_modes: ["exec"],
    file_transfer: false,
    max_ttl_seconds: 300,
  };
  plane.signer.reply = () => ({ body: { web01: { ...WEB01, policy } } });
  const { body } = await plane.get("/v1/hosts?policy=true&host=web01&host=a%26b", "broker-1");
  assert.deepEqual(body, { web01: { ...WEB01, policy } });
  assert.equal(plane.signer.requests[0]?.path, "/v1/hosts?policy=true&host=web01&host=a%26b");
  assert.equal((await plane.get("/v1/hosts?policy=true", "broker-1")).status, 400);
});

const OWN = "https://control-plane:7443";

interface Row {
  readonly name: string;
  readonly headers: Record<string, string>;
  readonly template?: string;
  readonly is: RequestOrigin;
}

Deno.test.each<Row>([
  {
    name: "a form of our page",
    headers: { "sec-fetch-site": "same-origin", origin: "null" },
    is: "same_origin",
  },
  {
    name: "a script of our page",
    headers: { "sec-fetch-site": "same-origin", origin: OWN },
    is: "same_origin",
  },
  { name: "our page without Origin", headers: { "sec-fetch-site": "same-origin" }, is: "same_origin" },
  { name: "our page in an old browser", headers: { origin: OWN }, is: "same_origin" },
  {
    name: "our page on the default port",
    headers: { origin: "https://cp" },
    template: "https://CP:443/ui/approvals/{id}",
    is: "same_origin",
  },
  {
    name: "our page with an IP address",
    headers: { origin: "https://[::1]:7443" },
    template: "https://[0::1]:7443/{id}",
    is: "same_origin",
  },
  { name: "a program", headers: {}, is: "no_evidence" },
  { name: "an address that was typed", headers: { "sec-fetch-site": "none" }, is: "no_evidence" },
  { name: "another site", headers: { "sec-fetch-site": "cross-site" }, is: "cross_origin" },
  {
    name: "a sibling of our host",
    headers: { "sec-fetch-site": "same-site", origin: OWN },
    is: "cross_origin",
  },
  { name: "an unknown word", headers: { "sec-fetch-site": "Same-Origin" }, is: "cross_origin" },
  { name: "two words", headers: { "sec-fetch-site": "same-origin, cross-site" }, is: "cross_origin" },
  { name: "another origin", headers: { origin: "https://evil.example" }, is: "cross_origin" },
  { name: "another port", headers: { origin: "https://control-plane" }, is: "cross_origin" },
  { name: "another scheme", headers: { origin: "http://control-plane:7443" }, is: "cross_origin" },
  { name: "a longer host", headers: { origin: `${OWN}.evil.example` }, is: "cross_origin" },
  { name: "an empty origin", headers: { origin: "" }, is: "cross_origin" },
  { name: "an opaque origin in an old browser", headers: { origin: "null" }, is: "cross_origin" },
  {
    name: "an opaque origin with Sec-Fetch-Site none",
    headers: { "sec-fetch-site": "none", origin: "null" },
    is: "cross_origin",
  },
  {
    name: "contradicting headers",
    headers: { "sec-fetch-site": "same-origin", origin: "https://evil.example" },
    is: "cross_origin",
  },
  { name: "an origin where none is configured", headers: { origin: OWN }, template: "", is: "cross_origin" },
  {
    name: "a form of our page without a configured origin",
    headers: { "sec-fetch-site": "same-origin", origin: "null" },
    template: "",
    is: "same_origin",
  },
  {
    name: "another origin that equals the Host",
    headers: { origin: "https://evil.example", host: "evil.example" },
    is: "cross_origin",
  },
])("checkSameOrigin() of $name returns $is", ({ headers, template = `${OWN}/ui/approvals/{id}`, is }) => {
  assert.equal(checkSameOrigin(new Headers(headers), template), is);
});
