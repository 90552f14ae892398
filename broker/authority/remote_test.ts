import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { CertificateRequest, SignAnswer, SignerReply } from "./authority.ts";
import { connect, replying, ScriptedSigner } from "../testing/scripted_signer.ts";

const request: CertificateRequest = {
  host: "web01",
  role: "target",
  purpose: "oneshot",
  command: "uptime",
  public_key: "ssh-ed25519 AAAA",
  end_user: "agent-1",
  end_user_groups: null,
};
const { signal } = new AbortController();
const options = { signal };

Deno.test("RemoteAuthority.sign() posts the request unchanged with the abort signal (I20)", async () => {
  const { signer, authority } = replying(200, { decision: { allowed: true, require_approval: true } });
  await authority.sign(request, options);
  assert.deepEqual(signer.requests, [{ method: "POST", path: "/v1/sign", body: request, signal }]);
});

Deno.test("RemoteAuthority.sign() returns the decision of a dry run without a certificate", async () => {
  const decision = { allowed: false, reason: "no", matched_rule: "deny:x" };
  const { authority } = replying(200, { decision, certificate: "not looked at", serial: 1 });
  assert.deepEqual(await authority.sign({ ...request, dry_run: true }, options), {
    kind: "decided",
    decision,
  });
});

Deno.test("RemoteAuthority.sign() returns the envelope of a preflight on a sealed host", async () => {
  const decision = { allowed: true };
  const { authority } = replying(200, { decision, envelope: "SEALED" });
  assert.deepEqual(await authority.sign({ ...request, dry_run: true }, options), {
    kind: "decided",
    decision,
    envelope: "SEALED",
  });
});

Deno.test("RemoteAuthority.sign() rejects an envelope that is not text instead of using the plain command", async () => {
  const { authority } = replying(200, { decision: { allowed: true }, envelope: { sealed: true } });
  await assert.rejects(authority.sign({ ...request, dry_run: true }, options), {
    code: "upstream_failure",
    message: "signing service returned an envelope that is not text",
  });
});

Deno.test("RemoteAuthority.sign() returns needs_approval with the matched rule", async () => {
  const { authority } = replying(200, {
    decision: { allowed: true, require_approval: true, matched_rule: "require_approval:^reboot" },
  });
  assert.deepEqual(await authority.sign(request, options), {
    kind: "needs_approval",
    rule: "require_approval:^reboot",
  });
});

Deno.test("RemoteAuthority.sign() returns a pending approval as undecided", async () => {
  const { authority } = replying(202, { approval_id: "ab12" });
  assert.deepEqual(await authority.sign(request, options), {
    kind: "undecided",
    approvalId: "ab12",
    why: "not_configured",
  });
});

Deno.test.each([
  ["a problem's detail", 403, { detail: "command denied", code: "denied" }, undefined, "command denied"],
  ["a plain text", 400, undefined, " invalid pubkey\n", "invalid pubkey"],
  ["an unauthenticated caller", 401, { detail: "unauthenticated" }, undefined, "unauthenticated"],
  ["a missing route", 404, { detail: "not found" }, undefined, "not found"],
  ["a wrong method", 405, { detail: "method not allowed" }, undefined, "method not allowed"],
  ["a body too large", 413, { detail: "too large" }, undefined, "too large"],
  ["a rate limit", 429, { detail: "slow down" }, undefined, "slow down"],
  ["a redirect, not followed", 302, undefined, "", "no reason given"],
  ["a long text, cut", 403, { detail: "x".repeat(5000) }, undefined, `${"x".repeat(1000)}…`],
])("RemoteAuthority.sign() returns a rejection: %s", async (_name, status, body, text, detail) => {
  const { authority } = replying(status, body, text);
  assert.deepEqual(await authority.sign(request, options), { kind: "rejected", status, detail });
});

const NO_SIGN_RESPONSE = "signing service returned something that is not a sign response";
const NO_APPROVAL_ID = "signing service returned something that is not an approval id";
const NO_HOST_LIST = "signing service returned something that is not a host list";

Deno.test.each([
  {
    name: "500",
    reply: { status: 500, body: { detail: "audit unavailable" } },
    message: "signing service unavailable (500): audit unavailable",
  },
  {
    name: "502",
    reply: { status: 502, body: undefined, text: "bad gateway\n" },
    message: "signing service unavailable (502): bad gateway",
  },
  { name: "no JSON", reply: { status: 200, body: undefined }, message: NO_SIGN_RESPONSE },
  { name: "an invalid body", reply: { status: 200, body: { certificate: 7 } }, message: NO_SIGN_RESPONSE },
  { name: "an empty answer", reply: { status: 200, body: {} } },
  { name: "a serial alone", reply: { status: 200, body: { serial: 7 } } },
  { name: "a certificate without serial", reply: { status: 200, body: { certificate: "x" } } },
  {
    name: "an allowed decision without a certificate",
    reply: { status: 200, body: { decision: { allowed: true } } },
  },
  {
    name: "an unknown enforcement value",
    reply: { status: 200, body: { decision: { allowed: true, enforcement: "maybe" } } },
    message: NO_SIGN_RESPONSE,
  },
  { name: "202 without an ID", reply: { status: 202, body: {} }, message: NO_APPROVAL_ID },
  ...["", "../../v1/freeze", "a b", "ab12)", "x".repeat(65)].map((id) => ({
    name: `202 with the ID ${JSON.stringify(id)}`,
    reply: { status: 202, body: { approval_id: id }, text: "" },
    message: NO_APPROVAL_ID,
  })),
  {
    name: "an unreadable certificate",
    reply: { status: 200, body: { certificate: "ssh-ed25519 AAAA", serial: 7 } },
    message: "signing service returned an unreadable certificate",
  },
])("RemoteAuthority.sign() rejects a signer reply of $name", async (row) => {
  const { reply: { status, body, text }, message = "signing service returned no certificate" } = row;
  const { authority } = replying(status, body, text);
  await assert.rejects(authority.sign(request, options), { code: "upstream_failure", message });
});

Deno.test.each<{ name: string; reply: SignerReply; answer: SignAnswer }>([
  {
    name: "a denial",
    reply: { status: 403, body: { detail: "approval denied" }, text: "" },
    answer: { kind: "not_granted", status: 403, detail: "approval denied" },
  },
  {
    name: "an approval that was already collected",
    reply: { status: 410, body: undefined, text: "approval already used\n" },
    answer: { kind: "not_granted", status: 410, detail: "approval already used" },
  },
])("RemoteAuthority.sign() waits for an approval and returns $name", async ({ reply, answer }) => {
  const signer = new ScriptedSigner((count) =>
    count === 0 ? { status: 202, body: { approval_id: "ab12" }, text: "" } : reply
  );
  assert.deepEqual(await connect(signer, 120).sign(request, options), answer);
});

Deno.test.each([
  {
    name: "another key's certificate",
    body: { certificate: "ssh-ed25519 AAAA", serial: 7 },
    message: "signing service returned an unreadable certificate",
  },
  {
    name: "a denial beside a certificate",
    body: { certificate: "x", serial: 7, decision: { allowed: false, reason: "no" } },
    message: "signing service returned a denial as an answer",
  },
  {
    name: "a second need of approval",
    body: { decision: { allowed: true, require_approval: true } },
    message: "signing service returned no certificate",
  },
])("RemoteAuthority.sign() rejects an invalid answer after an approval: $name", async (row) => {
  const signer = new ScriptedSigner((count) =>
    count === 0
      ? { status: 202, body: { approval_id: "ab12" }, text: "" }
      : { status: 200, body: row.body, text: "" }
  );
  await assert.rejects(connect(signer, 120).sign(request, options), {
    code: "upstream_failure",
    message: row.message,
  });
});

Deno.test("RemoteAuthority.sign() rejects a dry run reply without a decision", async () => {
  const { authority } = replying(200, {});
  await assert.rejects(authority.sign({ ...request, dry_run: true }, options), {
    code: "upstream_failure",
    message: "signing service returned no decision",
  });
});

Deno.test.each([
  {
    name: "with the message of the client's error",
    cause: new AppError("upstream_failure", "Timed out contacting the signer"),
    message: "signing service unavailable: contacting signing service: Timed out contacting the signer",
  },
  {
    name: "without the message of an unexpected error",
    cause: new Error("connect ECONNREFUSED 10.0.0.9:9443"),
    message: "signing service unavailable: contacting signing service: failed",
  },
])("RemoteAuthority reports an unreachable signer $name", async ({ cause, message }) => {
  const authority = connect({ request: () => Promise.reject(cause) });
  const error = { code: "upstream_failure", message, cause };
  await assert.rejects(authority.sign(request, options), error);
  await assert.rejects(authority.hosts(), error);
});

Deno.test("RemoteAuthority.sign() reports a cancellation", async () => {
  const authority = connect({ request: () => Promise.reject(new Error("aborted")) });
  await assert.rejects(authority.sign(request, { signal: AbortSignal.abort() }), { code: "canceled" });
});

Deno.test("RemoteAuthority.hosts() returns the signer's host list", async () => {
  const hosts = { web01: { addr: "10.0.0.1:22", user: "deploy", host_key: "k", jump: "bastion01" } };
  const { signer, authority } = replying(200, hosts);
  assert.deepEqual(await authority.hosts(), hosts);
  assert.deepEqual(signer.requests, [{ method: "GET", path: "/v1/hosts" }]);
});

Deno.test("RemoteAuthority.rules() requests the rules of only the named hosts", async () => {
  const web01 = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };
  const { signer, authority } = replying(200, { web01 });
  assert.deepEqual(await authority.rules(["web01", "a&b"], signal), { web01 }, "a signer that does not tell");
  const path = "/v1/hosts?policy=true&host=web01&host=a%26b";
  assert.deepEqual(signer.requests, [{ method: "GET", path, signal }]);
  const frozen = replying(403, { code: "frozen", detail: "subject is frozen" });
  await assert.rejects(frozen.authority.rules(["web01"], signal), { code: "frozen" });
});

Deno.test.each([
  { name: "for a frozen broker", code: "frozen" },
  { name: "for a broker that may not have it", code: "denied" },
])("RemoteAuthority.hosts() fails with $code (403) $name", async ({ code }) => {
  const { authority } = replying(403, {
    code: code === "frozen" ? code : "forbidden",
    detail: "no hosts for you",
  });
  await assert.rejects(authority.hosts(), { code, message: "host list refused (403): no hosts for you" });
});

Deno.test.each([
  {
    name: "503",
    reply: { status: 503, body: undefined, text: "" },
    message: "signing service unavailable (503): no reason given",
  },
  { name: "an invalid body", reply: { status: 200, body: { web01: {} } }, message: NO_HOST_LIST },
  { name: "no JSON", reply: { status: 200, body: undefined }, message: NO_HOST_LIST },
])("RemoteAuthority.hosts() fails on $name", async ({ reply: { status, body, text }, message }) => {
  const { authority } = replying(status, body, text);
  await assert.rejects(authority.hosts(), { code: "upstream_failure", message });
});

const HOSTS = { web01: { addr: "10.0.0.1:22", user: "deploy", host_key: "k" } };

/** A signer that returns these replies in order. */
function scripted(replies: readonly { status: number; body?: unknown; etag?: string }[]) {
  const signer = new ScriptedSigner((count) => {
    const { status, body, etag } = replies[count] ?? { status: 500 };
    return { status, body, text: "", headers: { etag } };
  });
  return { signer, authority: connect(signer) };
}

Deno.test("RemoteAuthority.hosts() returns the same object while the signer reports an unchanged list", async () => {
  const { signer, authority } = scripted([
    { status: 200, body: HOSTS, etag: '"a"' },
    { status: 304, etag: '"a"' },
    { status: 304, etag: '"a"' },
    { status: 200, body: {}, etag: '"b"' },
    { status: 200, body: HOSTS },
    { status: 200, body: HOSTS, etag: 'W/"c"' },
    { status: 200, body: HOSTS },
  ]);
  const first = await authority.hosts();
  assert.deepEqual(first, HOSTS);
  assert.equal(await authority.hosts(), first);
  assert.equal(await authority.hosts(), first);
  assert.deepEqual(await authority.hosts(), {});
  for (let i = 0; i < 3; i++) assert.deepEqual(await authority.hosts(), HOSTS);
  assert.deepEqual(signer.requests.map(({ headers }) => headers?.["if-none-match"]), [
    undefined,
    '"a"',
    '"a"',
    '"a"',
    '"b"',
    undefined,
    undefined,
  ]);
});

Deno.test.each([
  ["before a list exists", [{ status: 304, etag: '"a"' }]],
  ["of another list", [{ status: 200, body: HOSTS, etag: '"a"' }, { status: 304, etag: '"b"' }]],
  ["without a tag", [{ status: 200, body: HOSTS, etag: '"a"' }, { status: 304 }]],
  ["of a list without a tag", [{ status: 200, body: HOSTS }, { status: 304 }]],
])("RemoteAuthority.hosts() fails on a 304 %s", async (_name, replies) => {
  const { authority } = scripted(replies);
  for (let i = 1; i < replies.length; i++) await authority.hosts();
  await assert.rejects(authority.hosts(), {
    code: "upstream_failure",
    message: /^host list refused \(304\)/,
  });
});

Deno.test("RemoteAuthority.hosts() fails with frozen on a 403 although it has a cached list", async () => {
  const { authority } = scripted([
    { status: 200, body: HOSTS, etag: '"a"' },
    { status: 403, body: { code: "frozen", detail: "subject is frozen" } },
  ]);
  await authority.hosts();
  await assert.rejects(authority.hosts(), { code: "frozen" });
});
