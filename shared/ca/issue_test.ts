import assert from "node:assert/strict";
import type { HostPolicy } from "../policy/model.ts";
import type { AllowedSsh, SshIntent } from "../policy/ssh.ts";
import { parseCertificate } from "../ssh/certificate.ts";
import { encodeOpensshPrivateKey } from "../ssh/openssh_key.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import { FixedRandom } from "../testing/fixed_random.ts";
import { allowSample } from "../testing/sample_policy.ts";
import { issueUserCertificate } from "./issue.ts";
import { parsePemCaKey } from "./pem.ts";

const fallback = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const PUBLIC_KEY = new Uint8Array(32).fill(2);

async function issue(decision: AllowedSsh) {
  const clock = new FakeClock(1_700_000_000_999);
  const issued = await issueUserCertificate(
    { decision, caller: "broker-1", endUser: "alice", publicKey: PUBLIC_KEY },
    { caKeys: { fallback, byGroup: new Map() }, clock, random: new FixedRandom() },
  );
  return { issued, fields: parseCertificate(issued.certificate) };
}

Deno.test("issueUserCertificate() fills in serial, key, principal, KeyId and time", async () => {
  const { issued, fields } = await issue(allowSample({}, { ttlSeconds: 120 }));
  assert.equal(fields.serial, issued.serial);
  assert.deepEqual(fields.publicKey, PUBLIC_KEY);
  assert.deepEqual(fields.principals, ["host:web01"]);
  assert.equal(fields.keyId, "agent=broker-1 host=web01 role=target t=1700000000 user=alice");
  assert.deepEqual([fields.validAfter, fields.validBefore], [1_699_999_970, 1_700_000_120]);
  assert.equal(issued.validBefore, 1_700_000_120);
});

const SESSION = { purpose: "session", sessionMode: "shell", command: "" };
const HOP = { role: "bastion", purpose: "session", command: "" };

// The cases of the table of certificate contents.
Deno.test.each<
  [
    name: string,
    host: Partial<HostPolicy>,
    intent: Partial<SshIntent>,
    options: Record<string, string>,
    extensions: string[],
  ]
>([
  ["a bare session", {}, SESSION, {}, []],
  ["a one-shot", {}, { command: "ls -l" }, { "force-command": "ls -l" }, []],
  ["a terminal", { allow_pty: true }, { ...SESSION, pty: true }, {}, ["permit-pty"]],
  ["a bastion", { allow_as_bastion: true }, HOP, { "force-command": "exit 1" }, ["permit-port-forwarding"]],
  [
    "a sealed bastion with terminal and source address",
    { allow_as_bastion: true, allow_pty: true, sealed_exec: true, source_address: "10.0.0.0/8" },
    { ...HOP, pty: true },
    { "force-command": "gateway-shim web01", "source-address": "10.0.0.0/8" },
    ["permit-port-forwarding", "permit-pty"],
  ],
])("issueUserCertificate() of %s", async (_name, host, intent, options, extensions) => {
  const { fields } = await issue(allowSample(host, intent));
  assert.deepEqual(fields.criticalOptions, options);
  assert.deepEqual(fields.extensions, extensions);
});

const DECISION = allowSample({});

Deno.test("issueUserCertificate() refuses an empty principal", async () => {
  const host = { ...DECISION.host, principal: "" };
  await assert.rejects(issue({ ...DECISION, host }), { code: "denied", message: "principal is required" });
});

Deno.test.each([0, -1, 901, 0.5, NaN, Infinity].map((ttlSeconds) => ({ ttlSeconds })))(
  "issueUserCertificate() refuses a lifetime of $ttlSeconds seconds",
  async ({ ttlSeconds }) => {
    await assert.rejects(issue({ ...DECISION, ttlSeconds }), RangeError);
  },
);

Deno.test.each([1, 900].map((ttlSeconds) => ({ ttlSeconds })))(
  "issueUserCertificate() accepts a lifetime of $ttlSeconds seconds",
  async ({ ttlSeconds }) => {
    assert.equal((await issue({ ...DECISION, ttlSeconds })).issued.validBefore, 1_700_000_000 + ttlSeconds);
  },
);
