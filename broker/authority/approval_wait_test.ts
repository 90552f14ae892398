import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import { ApprovalWaits, MAX_WAITING, MAX_WAITING_OF_ONE } from "./approval_wait.ts";
import type { JsonClientRequest } from "@gateway/shared/http";
import type { SignerReply } from "./authority.ts";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  type CertificateFields,
  encodeOpensshPrivateKey,
  formatCertificate,
  issueCertificate,
  parseEd25519PublicKey,
} from "@gateway/shared/ssh";
import { createEphemeralKey } from "../ssh/login.ts";
import { checkCertificate } from "./remote.ts";

const PENDING: SignerReply = { status: 202, body: { status: "pending" }, text: "" };
const GIVEN: SignerReply = { status: 200, body: { certificate: "c" }, text: "" };

interface Hold {
  /** How long the reply takes, in milliseconds. */
  readonly ms: number;
  readonly reply: SignerReply | Error;
}

/** A control plane with scripted answers that records the time and path of each poll. */
class ScriptedControlPlane {
  readonly clock = new FakeClock(0);
  readonly polls: { readonly at: number; readonly path: string; readonly timeoutMs: number | undefined }[] =
    [];
  script: (poll: { readonly count: number; readonly waitSeconds: number }) => Hold;

  constructor(script: ScriptedControlPlane["script"]) {
    this.script = script;
  }

  async request({ path, signal, timeoutMs }: JsonClientRequest): Promise<SignerReply> {
    const count = this.polls.length;
    this.polls.push({ at: this.clock.now(), path, timeoutMs });
    const waitSeconds = Number(new URL(path, "https://x").searchParams.get("wait"));
    const { ms, reply } = this.script({ count, waitSeconds });
    await this.clock.sleep(ms, signal);
    if (reply instanceof Error) throw reply;
    return reply;
  }

  waits(seconds: number): ApprovalWaits {
    return new ApprovalWaits({ client: this, clock: this.clock, seconds });
  }

  get times(): readonly number[] {
    return this.polls.map(({ at }) => at);
  }
}

const parked = { approvalId: "ab12", publicKey: "ssh-ed25519 AA+/ comment\n", endUser: "agent-1" };

function collect(waits: ApprovalWaits, options: { signal?: AbortSignal; endUser?: string } = {}) {
  const { signal = new AbortController().signal, endUser = "agent-1" } = options;
  return waits.collect({ ...parked, endUser }, { signal });
}

/** Advances the time until a wait has ended. */
async function finish<T>(clock: FakeClock, waiting: Promise<T>): Promise<T> {
  let done = false;
  const settled = waiting.finally(() => done = true);
  settled.catch(() => {});
  for (let step = 0; !done && step < 1000; step++) await clock.advance(500);
  return await settled;
}

const held = ({ waitSeconds }: { readonly waitSeconds: number }): Hold => ({
  ms: waitSeconds * 1000,
  reply: PENDING,
});

Deno.test("ApprovalWaits sends sequential polls with the public key and a hold of 8 s", async () => {
  const plane = new ScriptedControlPlane((poll) => poll.count < 2 ? held(poll) : { ms: 100, reply: GIVEN });
  const waiting = collect(plane.waits(120));
  assert.deepEqual(await finish(plane.clock, waiting), GIVEN);
  assert.deepEqual(plane.times, [0, 8000, 16000]);
  assert.deepEqual(plane.polls[0], {
    at: 0,
    path: "/v1/sign/result/ab12?pubkey=ssh-ed25519+AA%2B%2F+comment&wait=8",
    timeoutMs: 20_000,
  });
});

Deno.test("ApprovalWaits polls every 2 s if the control plane does not hold polls", async () => {
  const plane = new ScriptedControlPlane(({ count }) => ({ ms: 100, reply: count < 3 ? PENDING : GIVEN }));
  await finish(plane.clock, collect(plane.waits(120)));
  assert.deepEqual(plane.times, [0, 2000, 4000, 6000]);
});

Deno.test("ApprovalWaits waits at most the configured time and polls once more at the end", async () => {
  const plane = new ScriptedControlPlane(held);
  assert.deepEqual(await finish(plane.clock, collect(plane.waits(10))), "deadline");
  assert.deepEqual(plane.polls.map(({ at, path }) => [at, path.replace(/.*wait=/, "")]), [
    [0, "8"],
    [8000, "2"],
    [10_000, "0"],
  ]);
});

Deno.test("ApprovalWaits accepts an approval that arrives with the last poll", async () => {
  const plane = new ScriptedControlPlane(({ count }) => ({ ms: 0, reply: count === 1 ? GIVEN : PENDING }));
  assert.deepEqual(await finish(plane.clock, collect(plane.waits(1))), GIVEN);
  assert.deepEqual(plane.times, [0, 1000]);
});

Deno.test.each([400, 401, 403, 404, 408, 410, 429, 500, 503])(
  "ApprovalWaits returns a first answer of %d without another poll",
  async (status) => {
    const reply = { status, body: undefined, text: "no" };
    const plane = new ScriptedControlPlane(() => ({ ms: 0, reply }));
    assert.deepEqual(await finish(plane.clock, collect(plane.waits(120))), reply);
    assert.equal(plane.polls.length, 1);
  },
);

Deno.test("ApprovalWaits ends when the signer rejects the approved request", async () => {
  const body = {
    status: 502,
    code: "signing_refused",
    detail: "signing after approval failed: host removed",
  };
  const reply = { status: 502, body, text: JSON.stringify(body) };
  const plane = new ScriptedControlPlane(() => ({ ms: 0, reply }));
  assert.deepEqual(await finish(plane.clock, collect(plane.waits(120))), reply);
  assert.deepEqual(plane.times, [0]);
});

Deno.test.each<[name: string, reply: SignerReply | Error]>([
  ["signing has failed (502)", { status: 502, body: undefined, text: "" }],
  ["the control plane is away", new AppError("upstream_failure", "Failed contacting the signer")],
])("ApprovalWaits polls again if %s", async (_name, reply) => {
  const plane = new ScriptedControlPlane(({ count }) => ({ ms: 0, reply: count < 2 ? reply : GIVEN }));
  assert.deepEqual(await finish(plane.clock, collect(plane.waits(120))), GIVEN);
  assert.deepEqual(plane.times, [0, 2000, 4000]);
});

Deno.test.each([
  {
    name: "with the message of the client's error",
    error: new AppError("upstream_failure", "Timed out contacting the signer"),
    message: "querying approval result: Timed out contacting the signer",
  },
  {
    name: "without the message of an unexpected error",
    error: new Error("connect ECONNREFUSED 10.0.0.9:7443"),
    message: "querying approval result: failed",
  },
])("ApprovalWaits reports an unreachable control plane $name", async ({ error, message }) => {
  const plane = new ScriptedControlPlane(() => ({ ms: 0, reply: error }));
  await assert.rejects(finish(plane.clock, collect(plane.waits(5))), { code: "upstream_failure", message });
  assert.deepEqual(plane.times, [0, 2000, 4000, 5000]);
});

Deno.test("ApprovalWaits does not wait unless configured", async () => {
  const plane = new ScriptedControlPlane(held);
  assert.deepEqual(await collect(plane.waits(0)), "not_configured");
  assert.deepEqual(plane.polls, []);
});

Deno.test.each([
  { name: "a poll", script: held },
  { name: "a pause", script: () => ({ ms: 0, reply: PENDING }) },
])("ApprovalWaits ends if the client cancels during $name", async ({ script }) => {
  const plane = new ScriptedControlPlane(script);
  const client = new AbortController();
  const waits = plane.waits(120);
  const waiting = collect(waits, { signal: client.signal });
  await plane.clock.advance(1000);
  client.abort();
  await assert.rejects(waiting, { code: "canceled" });
  assert.equal(plane.clock.sleeping, 0);
});

Deno.test("ApprovalWaits ends at most one hold late if the clock is set back", async () => {
  let setBackMs = 0;
  const plane = new ScriptedControlPlane((poll) => {
    if (poll.count === 1) setBackMs = 3_600_000;
    return held(poll);
  });
  const { clock } = plane;
  const waits = new ApprovalWaits({
    client: plane,
    clock: { now: () => clock.now() - setBackMs, sleep: (ms, signal) => clock.sleep(ms, signal) },
    seconds: 24,
  });
  assert.deepEqual(await finish(clock, collect(waits)), "deadline");
  // Exactly one hold and its pause are not counted.
  assert.ok(clock.now() <= 24_000 + 8_000 + 2_500, String(plane.times));
});

Deno.test("ApprovalWaits reports the approval ID on each poll", async () => {
  const plane = new ScriptedControlPlane(held);
  const told: string[] = [];
  const { signal } = new AbortController();
  const waiting = plane.waits(16).collect(parked, { signal, onWaiting: (id) => told.push(id) });
  await finish(plane.clock, waiting);
  assert.deepEqual(told, ["ab12", "ab12", "ab12"]);
});

Deno.test("ApprovalWaits limits the concurrent waits of one end user", async () => {
  const plane = new ScriptedControlPlane(held);
  const waits = plane.waits(60);
  const first = Array.from({ length: MAX_WAITING_OF_ONE }, () => collect(waits));
  assert.deepEqual(await collect(waits), "too_many");
  const other = collect(waits, { endUser: "agent-2" });
  await finish(plane.clock, Promise.all([...first, other]));
  assert.equal(await finish(plane.clock, collect(waits)), "deadline");
  assert.ok(plane.polls.length > MAX_WAITING_OF_ONE + 1);
});

Deno.test("ApprovalWaits limits the total number of concurrent waits", async () => {
  const plane = new ScriptedControlPlane(held);
  const waits = plane.waits(60);
  const all = Array.from({ length: MAX_WAITING }, (_, at) => collect(waits, { endUser: `agent-${at}` }));
  assert.deepEqual(await collect(waits), "too_many");
  await finish(plane.clock, Promise.all(all));
  assert.deepEqual(await finish(plane.clock, collect(waits)), "deadline");
});

const SERIAL = 18446744073709551615n;
const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const key = createEphemeralKey();
const otherKey = createEphemeralKey();

async function issue(changes: Partial<CertificateFields> = {}): Promise<string> {
  const blob = await issueCertificate({
    publicKey: parseEd25519PublicKey(key.publicKeyLine),
    nonce: new Uint8Array(32),
    serial: SERIAL,
    keyId: "agent=broker-1 host=web01",
    principals: ["host:web01"],
    validAfter: 1_700_000_000,
    validBefore: 1_700_000_120,
    criticalOptions: { "force-command": "uptime" },
    extensions: [],
    ...changes,
  }, ca);
  return formatCertificate(blob);
}

const expected = { publicKey: key.publicKeyLine, serial: SERIAL, use: "command", host: "web01" } as const;

Deno.test("checkCertificate() accepts the requested certificate", async () => {
  checkCertificate(await issue(), expected);
});

Deno.test.each([
  {
    name: "another key",
    changes: { publicKey: parseEd25519PublicKey(otherKey.publicKeyLine) },
    message: "signing service returned a certificate with another public key",
  },
  {
    name: "a serial that differs in the last bit",
    changes: { serial: SERIAL - 1n },
    message: "signing service returned a certificate with another serial",
  },
  {
    name: "no force-command",
    changes: { criticalOptions: { "source-address": "10.0.0.0/8" } },
    message: "signing service returned a certificate with no force-command",
  },
])("checkCertificate() rejects a certificate with $name", async ({ changes, message }) => {
  const line = await issue(changes);
  assert.throws(() => checkCertificate(line, expected), { code: "upstream_failure", message });
});

Deno.test.each([
  { name: "nothing", line: "" },
  { name: "a plain key", line: key.publicKeyLine },
  { name: "something else", line: "ssh-ed25519-cert-v01@openssh.com AAAA" },
])("checkCertificate() rejects $name in place of a certificate", ({ line }) => {
  assert.throws(() => checkCertificate(line, expected), {
    code: "upstream_failure",
    message: "signing service returned an unreadable certificate",
  });
});

Deno.test.each([
  ["no shim", {}, undefined],
  ["the shim of its host", { "force-command": "gateway-shim web01" }, "gateway-shim"],
  ["another build's shim", { "force-command": "/opt/x/shim web01" }, "/opt/x/shim"],
])("checkCertificate() returns %s in a session certificate", async (_name, criticalOptions, shim) => {
  const line = await issue({ criticalOptions });
  assert.deepEqual(checkCertificate(line, { ...expected, use: "session" }), shim);
});

Deno.test.each(
  [
    { name: "of a session without force-command", use: "session", changes: { criticalOptions: {} } },
    {
      name: "of a bastion that permits forwarding alone",
      use: "forwarding",
      changes: { criticalOptions: {}, extensions: ["permit-port-forwarding"] },
    },
  ] as const,
)("checkCertificate() accepts a certificate $name", async ({ use, changes }) => {
  checkCertificate(await issue(changes), { ...expected, use });
});

Deno.test.each(
  [
    {
      name: "of a session that is locked to a command",
      use: "session",
      changes: {},
      what: "a force-command for a session",
    },
    ...["gateway-shim", "gateway-shim web02", "gateway-shim web01 id", "sh -c web01", " web01"].map((
      forced,
    ) => ({
      name: `of a session that is locked to '${forced}'`,
      use: "session" as const,
      changes: { criticalOptions: { "force-command": forced } },
      what: "a force-command for a session",
    })),
    {
      name: "of a bastion that permits nothing",
      use: "forwarding",
      changes: { criticalOptions: {} },
      what: "other permissions than a bastion's",
    },
    {
      name: "of a bastion that also permits a terminal",
      use: "forwarding",
      changes: { criticalOptions: {}, extensions: ["permit-port-forwarding", "permit-pty"] },
      what: "other permissions than a bastion's",
    },
  ] as const,
)("checkCertificate() rejects a certificate $name", async ({ use, changes, what }) => {
  const line = await issue(changes);
  const message = `signing service returned a certificate with ${what}`;
  assert.throws(() => checkCertificate(line, { ...expected, use }), { code: "upstream_failure", message });
});
