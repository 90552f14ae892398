import assert from "node:assert/strict";
import { allow, type FakeReply, gate, refusal, SERIAL } from "../testing/fake_signer.ts";
import { ONE_SHOT, post, PUBLIC_KEY, startControlPlane } from "../testing/memory_control_plane.ts";

Deno.test("POST /v1/sign returns the signer's certificate with the exact serial", async () => {
  const plane = await startControlPlane();
  const { status, body, text } = await plane.sign();
  assert.equal(status, 200);
  assert.deepEqual(body, {
    certificate: "ssh-ed25519-cert-v01@openssh.com AAAA\n",
    serial: SERIAL,
    decision: { allowed: true, matched_rule: "allow:.*", force_command: "uptime" },
  });
  assert.ok(text.includes(`"serial":${SERIAL},`) && text.endsWith("\n"));
  assert.deepEqual(plane.log.entries, [{
    caller: "broker-1",
    host: "web01",
    host_name: "web01",
    addr: "",
    end_user: "",
    session_id: "",
    command: "uptime",
    elevation: "",
    policy_rule: "allow:.*",
    warning: "",
    outcome: "forwarded",
    serial: SERIAL,
    request_id: "",
  }]);
});

Deno.test.each<{ name: string; body: unknown; status?: number; code?: string }>([
  { name: "malformed JSON", body: "{" },
  { name: "a wrong type", body: { ...ONE_SHOT, sudo: "yes" } },
  { name: "no host", body: { ...ONE_SHOT, host: undefined } },
  { name: "no public key", body: { ...ONE_SHOT, public_key: undefined } },
  { name: "a bad public key", body: { ...ONE_SHOT, public_key: "x" } },
  { name: "two public keys", body: { ...ONE_SHOT, public_key: `${PUBLIC_KEY}\n${PUBLIC_KEY}` } },
  {
    name: "a body above 64 KiB",
    body: { ...ONE_SHOT, x: "x".repeat(65536) },
    status: 413,
    code: "payload_too_large",
  },
  { name: "an unknown target", body: { ...ONE_SHOT, target_type: "sql" }, code: "not_supported" },
  {
    name: "a cluster body above 256 KiB",
    body: { ...ONE_SHOT, target_type: "k8s", x: "x".repeat(262_144) },
    status: 413,
    code: "payload_too_large",
  },
  { name: "NUL", body: { ...ONE_SHOT, command: "a\0b" } },
  { name: "a host that would forge a record (L18)", body: { ...ONE_SHOT, host: "web01 outcome=forwarded" } },
  {
    name: "an account with terminal control sequences (L13)",
    body: { ...ONE_SHOT, sudo: true, sudo_user: "db\u001b[2J" },
  },
])(
  "POST /v1/sign rejects $name without a signer request",
  async ({ body, status = 400, code = "invalid_request" }) => {
    const plane = await startControlPlane();
    const answer = await plane.send(post("/v1/sign", body), "broker-1");
    assert.deepEqual([answer.status, answer.body.code], [status, code], `${answer.body.detail}`);
    assert.deepEqual(plane.signer.requests, []);
  },
);

Deno.test("POST /v1/sign accepts any content type, and null for absent fields", async () => {
  const plane = await startControlPlane();
  const request = post("/v1/sign", { ...ONE_SHOT, reason: null }, { "content-type": "text/plain" });
  assert.equal((await plane.send(request, "broker-1")).status, 200);
});

Deno.test.each<{
  name: string;
  reply: FakeReply;
  status: number;
  code?: string;
  detail: string;
  outcome?: string;
  retryAfter?: string;
}>([
  {
    name: "400",
    reply: refusal(400, "invalid_request", "invalid host"),
    status: 400,
    code: "invalid_request",
    detail: "invalid host",
    outcome: "denied",
  },
  {
    name: "403",
    reply: refusal(403, "denied", "command not in allowlist"),
    status: 403,
    code: "denied",
    detail: "command not in allowlist",
    outcome: "denied",
  },
  {
    name: "403 for a freeze",
    reply: refusal(403, "frozen", "subject is frozen"),
    status: 403,
    code: "frozen",
    detail: "subject is frozen",
    outcome: "denied",
  },
  {
    name: "403 in plain text",
    reply: { status: 403, body: "no" },
    status: 403,
    code: "denied",
    detail: '"no"',
    outcome: "denied",
  },
  {
    name: "429",
    reply: refusal(429, "rate_limited", "too many", { "retry-after": "7" }),
    status: 429,
    code: "rate_limited",
    detail: "too many",
    outcome: "rate-limited",
    retryAfter: "7",
  },
  {
    name: "a code of another status",
    reply: refusal(403, "rate_limited", "odd"),
    status: 403,
    code: "denied",
    detail: "odd",
    outcome: "denied",
  },
  {
    name: "401",
    reply: refusal(401, "unauthenticated", "who?"),
    status: 502,
    detail: "the signer could not answer (status 401)",
  },
  {
    name: "500",
    reply: refusal(500, "internal", "disk /dev/sda1 is full"),
    status: 502,
    detail: "the signer could not answer (status 500)",
  },
  {
    name: "500 for its failing audit log",
    reply: refusal(500, "audit_unavailable", "audit unavailable: /dev/sda1 is full"),
    status: 500,
    code: "audit_unavailable",
    detail: "audit unavailable",
  },
  {
    name: "302",
    reply: { status: 302, headers: { location: "https://elsewhere" } },
    status: 502,
    detail: "the signer could not answer (status 302)",
  },
  {
    name: "200 with an array",
    reply: { body: [1] },
    status: 502,
    detail: "the signer's answer could not be understood",
  },
  {
    name: "200 with an empty object",
    reply: { body: {} },
    status: 502,
    detail: "signer response missing credential",
  },
  {
    name: "200 with only a decision",
    reply: { body: { decision: { allowed: true } } },
    status: 502,
    detail: "signer response missing credential",
  },
  ...[
    { name: "200 with an empty certificate", body: { certificate: "", serial: 7 } },
    {
      name: "200 with a denial and a certificate",
      body: { certificate: "x", serial: 7, decision: { allowed: false, reason: "no" } },
    },
    {
      name: "200 with a denial that requires approval",
      body: { decision: { allowed: false, require_approval: true, matched_rule: "deny:^rm" } },
    },
  ].map(({ name, body }) => ({
    name,
    reply: { body },
    status: 502,
    detail: "signer response missing credential",
  })),
])("POST /v1/sign answers the signer's $name with $status", async (row) => {
  const { code = "upstream_failure", outcome = "error" } = row;
  const plane = await startControlPlane();
  plane.signer.reply = () => row.reply;
  const { status, body, headers } = await plane.sign();
  assert.deepEqual([status, body.code, body.detail], [row.status, code, row.detail]);
  assert.equal(headers.get("retry-after"), row.retryAfter ?? null);
  const [entry] = plane.log.entries;
  assert.deepEqual([entry?.outcome, entry?.err], [outcome, row.detail]);
});

Deno.test("POST /v1/sign returns 502 without the address if the signer is unreachable", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => {
    throw new Error("connect ECONNREFUSED 127.0.0.1:9443");
  };
  const { status, body, text } = await plane.sign();
  assert.deepEqual([status, body.detail], [502, "the signer could not be reached"]);
  assert.doesNotMatch(text, /9443|ECONN/);
  assert.deepEqual(plane.outcomes(), ["error"]);
});

Deno.test("POST /v1/sign returns only the decision of a pure dry run and records nothing", async () => {
  const plane = await startControlPlane({ behavior: { mode: "enforce", rate_limit_per_min: 1 } });
  for (let count = 0; count < 3; count++) {
    const { status, body } = await plane.sign({ dry_run: true });
    assert.deepEqual([status, Object.keys(body)], [200, ["decision"]]);
  }
  assert.equal(plane.guardrails.subjects, 0);
  plane.signer.reply = () => refusal(403, "denied", "no");
  assert.equal((await plane.sign({ dry_run: true })).status, 403);
  assert.deepEqual(plane.log.entries, []);
});

Deno.test("POST /v1/sign returns the decision and not 202 for a gated preflight", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({
    body: { decision: { allowed: true, require_approval: true, matched_rule: "require_approval:." } },
  });
  const { status, body } = await plane.sign({ dry_run: true, preflight: true });
  assert.deepEqual([status, Object.keys(body)], [200, ["decision"]]);
  assert.equal(plane.registry.pendingCount(), 0);
  assert.deepEqual(plane.outcomes(), ["forwarded"]);
});

Deno.test("POST /v1/sign records a denied preflight as denied", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ body: { decision: { allowed: false, reason: "not in allowlist" } } });
  assert.equal((await plane.sign({ dry_run: true, preflight: true })).status, 200);
  const [entry] = plane.log.entries;
  assert.deepEqual([entry?.outcome, entry?.err, entry?.dry_run], ["denied", "not in allowlist", true]);
});

Deno.test("POST /v1/sign returns the answer and counts failures if the audit log fails", async () => {
  const plane = await startControlPlane();
  plane.log.failing = true;
  assert.equal((await plane.sign()).status, 200);
  plane.signer.reply = gate;
  assert.equal((await plane.sign()).status, 202);
  assert.deepEqual(plane.counts, { failures: 2, blocked: 0 });
});

Deno.test("POST /v1/sign records the elevation of a command", async () => {
  const plane = await startControlPlane();
  await plane.sign({ sudo: true });
  await plane.sign({ sudo: true, sudo_user: "db" });
  assert.deepEqual(plane.log.entries.map(({ elevation }) => elevation), ["sudo:root", "sudo:db"]);
});

Deno.test("POST /v1/sign returns and records the warning of an audit-mode policy", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = (request) => {
    const { body } = allow(request);
    const decision = { allowed: true, enforcement: "audit", warning: "would be denied", would_deny: true };
    return { body: { ...body as object, decision } };
  };
  const { body } = await plane.sign();
  assert.equal((body["decision"] as { would_deny?: boolean }).would_deny, true);
  assert.equal(plane.log.entries[0]?.warning, "would be denied");
});
