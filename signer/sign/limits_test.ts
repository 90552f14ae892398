import assert from "node:assert/strict";
import type { Steps } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import {
  type CountedRequest,
  DecisionScheduler,
  FORWARDED_CALLER_SHARE,
  SignLimit,
  type SignSource,
} from "./authority.ts";
import { AppError } from "@gateway/shared/errors";
import { ALONE } from "@gateway/shared/instances";
import { stringifyJson } from "@gateway/shared/json";
import { actionFields, answered, EXPIRY, startClusterSigner, TOKEN } from "../testing/cluster_scene.ts";
import { FakeSecrets, startLeaseSigner } from "../testing/lease_scene.ts";
import { post } from "../testing/memory_signer.ts";
import type { ApiAnswer } from "@gateway/shared/kubernetes";

const LIMIT = 2;
const BROKER: SignSource = { peer: "broker-1", isForwarder: false, perMinute: LIMIT };
const FORWARDER: SignSource = { peer: "control-plane", isForwarder: true, perMinute: LIMIT };

const asked = (changes: Partial<CountedRequest> = {}): CountedRequest => ({
  on_behalf_of: "broker-1",
  end_user: "ann",
  dry_run: false,
  preflight: false,
  ...changes,
});
const DRY = { dry_run: true };
const start = () => new SignLimit({ clock: new FakeClock() });
/** The number of requests that the limit allows. */
const through = (limit: SignLimit, source: SignSource, request: (index: number) => CountedRequest) =>
  Array.from({ length: 40 }, (_, index) => limit.take(source, request(index)).ok).filter(Boolean).length;

Deno.test("take() behind a forwarder limits invented end users to the share of their broker", () => {
  const limit = start();
  const invented = through(limit, FORWARDER, (index) => asked({ end_user: `user-${index}` }));
  assert.equal(invented, LIMIT * FORWARDED_CALLER_SHARE);
});

Deno.test("take() of a direct broker ignores the names that the broker sends", () => {
  const limit = start();
  const invented = (index: number) => asked({ end_user: `user-${index}`, on_behalf_of: `broker-${index}` });
  assert.equal(through(limit, BROKER, invented), LIMIT);
});

Deno.test.each([{ name: "directly", source: BROKER }, { name: "behind a forwarder", source: FORWARDER }])(
  "take() $name: dry runs do not use up the limit of other requests or preflights",
  ({ source }) => {
    const limit = start();
    assert.equal(through(limit, source, () => asked(DRY)), LIMIT);
    assert.equal(through(limit, source, () => asked({ ...DRY, preflight: true })), LIMIT);
    assert.equal(through(limit, source, () => asked()), 0);
  },
);

Deno.test("take() does not confuse names that contain separators, and stores no long names", () => {
  const limit = start();
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: 'b","c', end_user: "d" })), LIMIT);
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: "b", end_user: 'c","d' })), LIMIT);
  const long = (index: number) => asked({ on_behalf_of: "b2", end_user: "a".repeat(300) + index });
  assert.equal(through(limit, FORWARDER, long), LIMIT);
});

Deno.test("check() rejects a body unread only if no content could avoid the limit", () => {
  const limit = start();
  through(limit, BROKER, () => asked());
  assert.equal(limit.check(BROKER).ok, true, "it may be a dry run");
  through(limit, BROKER, () => asked(DRY));
  assert.deepEqual(limit.check(BROKER), { ok: false, retryAfterSeconds: 30 });
  through(limit, FORWARDER, (index) => asked({ end_user: `user-${index}` }));
  assert.equal(limit.check(FORWARDER).ok, true, "it may be for another broker");
});

Deno.test("takeUnread() takes a token from the bucket of requests that are not dry runs", () => {
  for (const source of [BROKER, FORWARDER]) {
    const limit = start();
    assert.deepEqual([1, 2, 3].map(() => limit.takeUnread(source).ok), [true, true, false]);
    assert.equal(limit.take(source, asked({ ...DRY, on_behalf_of: "" })).ok, true);
  }
});

/** Queue turns on a clock that advances only by steps and pauses, and the recorded events. */
function startTurns() {
  let time = 0;
  const events: string[] = [];
  const sleep = async (ms: number) => {
    events.push("pause");
    await Promise.resolve();
    time += ms;
  };
  const turns = new DecisionScheduler({ clock: { now: () => time, sleep } });
  function* take(name: string, steps: number): Steps<string> {
    for (let step = 0; step < steps; step++) {
      time += 1;
      yield;
    }
    return name;
  }
  const run = async (caller: string, name: string, steps: number) => {
    events.push(await turns.run(caller, take(name, steps)));
  };
  return { turns, events, run };
}

Deno.test("DecisionScheduler.run() serves callers in turn, and each in the order of its requests", async () => {
  const { events, run } = startTurns();
  await Promise.all([run("a", "a1", 3), run("a", "a2", 3), run("a", "a3", 3), run("b", "b1", 1)]);
  assert.deepEqual(events.filter((event) => event !== "pause"), ["b1", "a1", "a2", "a3"]);
});

Deno.test("DecisionScheduler.run() pauses after each millisecond of a decision", async () => {
  const { events, run } = startTurns();
  await run("a", "a1", 4);
  assert.deepEqual(events, ["pause", "pause", "pause", "pause", "a1"]);
});

Deno.test("DecisionScheduler.run() decides short ones without a pause", async () => {
  const { events, run } = startTurns();
  await Promise.all([run("a", "a1", 0), run("b", "b1", 0)]);
  assert.deepEqual(events, ["a1", "b1"]);
});

Deno.test("DecisionScheduler.run() rejects with the error of a decision, and serves the others", async () => {
  const { events, run, turns } = startTurns();
  // deno-lint-ignore require-yield
  function* fail(): Steps<never> {
    throw new RangeError("broken");
  }
  await Promise.all([assert.rejects(turns.run("a", fail()), RangeError), run("a", "a2", 1)]);
  assert.deepEqual(events, ["pause", "a2"]);
});

type Signer = Awaited<ReturnType<typeof startRelease>>;
type Event = readonly [name: string, happen: (signer: Signer) => Promise<void>, code: string];

/** Serial of the only certificate: the random bytes are fixed. */
const SERIAL = 0xfefefefefefefefen;
const KEY_ID = "agent=broker-1 host=web01 role=target t=1700000000 user=alice";

/** A signer with hosts, and with a cluster whose tokens can be revoked. */
async function startRelease() {
  const group = { isStale: false };
  const secrets = new FakeSecrets();
  const requireFresh = () => {
    if (group.isStale) throw new AppError("state_stale", "nobody knows");
  };
  return { ...await startLeaseSigner({ secrets, instances: { ...ALONE, requireFresh } }), group, secrets };
}

/** Calls a function after the first record of an outcome is written, before its writer continues. */
function after(outcome: string, { log }: Signer, happen: () => Promise<void>): void {
  log.onAppended = async (entry) => {
    if (entry.outcome !== outcome) return;
    log.onAppended = undefined;
    await happen();
  };
}

const told = (path: string, body: object) => async ({ send }: Signer) => {
  assert.equal((await send(post(path, stringifyJson(body)), "operator")).status, 200);
};
const freeze = (kind: string, value: string) => async (signer: Signer) =>
  void await signer.freeze(kind, value);
function growOld({ group }: Signer): Promise<void> {
  group.isStale = true;
  return Promise.resolve();
}
const revokeSerial = told("/v1/revocations/serials", { serials: [SERIAL], reason: "" });

const FREEZES: readonly Event[] = [
  ["a freeze of the end user", freeze("end_user", "Alice"), "frozen"],
  ["a freeze of the forwarder", freeze("caller", "control-plane"), "frozen"],
  ["the view growing old", growOld, "state_stale"],
];
const OF_SERIAL: Event = ["a freeze of its serial", freeze("serial", SERIAL.toString()), "frozen"];
const REVOCATIONS: readonly Event[] = [
  OF_SERIAL,
  ["a revocation of its serial", revokeSerial, "frozen"],
  [
    "a revocation of its key id",
    told("/v1/revocations/key-ids", { key_ids: [KEY_ID], reason: "" }),
    "frozen",
  ],
];
/** The freeze is lifted, but the revocation stays. */
const UNDONE: Event = ["a freeze that was lifted", async (signer) => {
  await freeze("end_user", "alice")(signer);
  await told("/v1/unfreeze", { kind: "end_user", value: "alice" })(signer);
}, "frozen"];

const FORWARDED = { on_behalf_of: "broker-1", end_user: "alice" };
const LEARN = { ...FORWARDED, learn_ttl_seconds: 60, learn_approver: "bob" };
const RESTART = { command: "systemctl restart nginx" };
const CLUSTER = actionFields("get pods web/web-1");

const askedRelease = (fields: Record<string, unknown>, events: readonly Event[], outcome = "issued") =>
  events.map(([event, happen, code]) => ({ event, outcome, fields, happen, code }));

Deno.test.each([
  ...askedRelease(FORWARDED, [...FREEZES, ...REVOCATIONS]),
  ...askedRelease(LEARN, [...FREEZES, ...REVOCATIONS, UNDONE], "approval-waiver-skipped"),
])("a certificate is withheld after $event, acknowledged behind the record $outcome", async (row) => {
  const signer = await startRelease();
  after(row.outcome, signer, () => row.happen(signer));
  const { body } = await signer.sign(row.fields, "control-plane");
  assert.deepEqual([body.code, body.certificate], [row.code, undefined]);
  const last = signer.log.entries.at(-1);
  assert.equal(last?.outcome, row.code === "frozen" ? "frozen_denied" : "stale_denied");
  assert.ok(signer.krl.listed.has({ serial: SERIAL }), "it is revoked all the same");
});

Deno.test.each([
  ...askedRelease({ ...FORWARDED, ...CLUSTER }, [...FREEZES, OF_SERIAL]),
  ...askedRelease({ ...LEARN, ...CLUSTER }, [...FREEZES, OF_SERIAL], "approval-waiver-skipped"),
])("a token is withheld after $event, acknowledged behind the record $outcome", async (row) => {
  const signer = await startRelease();
  after(row.outcome, signer, () => row.happen(signer));
  const { body } = await signer.sign(row.fields, "control-plane");
  assert.deepEqual([body.code, body["k8s_token"]], [row.code, undefined]);
  await signer.leases.sweep();
  assert.equal(signer.secrets.uids.size, 0, "the API server refuses it");
});

Deno.test("a certificate is withheld immediately, although its revocation waits for the database", async () => {
  const signer = await startRelease();
  const hung = Promise.withResolvers<void>();
  const { revoke } = signer.krl;
  let revoked: unknown;
  signer.krl.revoke = async (subjects) => {
    await hung.promise;
    revoked = subjects;
    return await revoke.call(signer.krl, subjects);
  };
  after("issued", signer, () => Promise.resolve(void (signer.group.isStale = true)));
  const answer = signer.sign(FORWARDED, "control-plane");
  while (signer.clock.sleeping === 0) await new Promise((done) => setTimeout(done, 0));
  await signer.clock.advance(1_000);
  const { body } = await answer;
  assert.deepEqual([body.code, body.certificate, revoked], ["state_stale", undefined, undefined]);
  hung.resolve();
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(revoked, [{ kind: "serial", value: SERIAL.toString() }]);
});

Deno.test("a self-approved certificate is withheld after a freeze", async () => {
  const signer = await startRelease();
  after("self_approved", signer, () => freeze("caller", "approver-broker")(signer));
  const { body } = await signer.sign({ ...RESTART, approved: true }, "approver-broker");
  assert.deepEqual([body.code, body.certificate], ["frozen", undefined]);
  assert.equal(signer.log.entries.at(-1)?.serial, SERIAL);
});

Deno.test.each([
  ...["hosts", "clusters"].flatMap((what) => {
    const fields = { ...FORWARDED, ...(what === "clusters" && CLUSTER) };
    const preflight = { ...fields, dry_run: true, preflight: true };
    return askedRelease(preflight, FREEZES, "dry_run_allowed").map((row) => ({ what, ...row }));
  }),
])("a preflight of $what returns no decision after $event", async ({ outcome, fields, happen, code }) => {
  const signer = await startRelease();
  after(outcome, signer, () => happen(signer));
  const { body } = await signer.sign(fields, "control-plane");
  assert.deepEqual([body.code, body.decision], [code, undefined]);
});

Deno.test("no approval is requested after a freeze", async () => {
  const signer = await startRelease();
  after("approval-required", signer, () => freeze("end_user", "alice")(signer));
  const { body } = await signer.sign({ ...FORWARDED, ...RESTART }, "control-plane");
  assert.equal(body.code, "frozen");
});

Deno.test("no waiver is learned from stale state", async () => {
  const signer = await startRelease();
  after("issued", signer, () => growOld(signer));
  const { body } = await signer.sign({ ...LEARN, ...RESTART, approved: true }, "control-plane");
  assert.equal(body.code, "state_stale");
  assert.deepEqual(signer.live.listGrants(), []);
});

const GET = "get pods web/web-1";

const refusing = (status: number, message: string) => answered(status, { kind: "Status", message });
const minted = (status: object) => answered(201, { status });
const ADDRESSES = "webhook https://10.1.2.3:443/x at 10.1.2.3:443, [::1]:8443\x1b";
const NO_TOKEN = /there is no token/;
const CAUSE = new Error("connect ECONNREFUSED 10.0.0.5:6443");

Deno.test.each<[name: string, status: number, reply: ApiAnswer, detail: RegExp]>([
  [
    "401",
    403,
    refusing(401, "Unauthorized"),
    /: the API server rejects the credential in token_file; renew it$/,
  ],
  ["403", 403, refusing(403, 'account "agent" is forbidden'), /: 403 account "agent" is forbidden$/],
  [
    "a message with addresses and controls",
    403,
    refusing(422, ADDRESSES),
    /: 422 webhook \[address\] at \[address\], \[address\]\\x1b$/,
  ],
  ["500 in HTML", 502, answered(500, "<h1>10.1.2.3</h1>"), /: 500$/],
  ["429", 502, answered(429, ""), /: 429$/],
  ["a redirect", 502, answered(302, ""), /: 302$/],
  ["HTML", 502, answered(200, "<h1>"), /answer is not JSON$/],
  ["no token", 502, answered(200, { status: {} }), NO_TOKEN],
  ["an empty token", 502, minted({ token: "", expirationTimestamp: EXPIRY }), NO_TOKEN],
  ["a token of two lines", 502, minted({ token: "a\r\nb", expirationTimestamp: EXPIRY }), NO_TOKEN],
  ["an expiry that is no time", 502, minted({ token: TOKEN, expirationTimestamp: "soon" }), NO_TOKEN],
  ["nothing in time", 502, { kind: "timed_out" }, /did not answer in time$/],
  ["too much", 502, { kind: "too_large" }, /answer is too large$/],
  ["no connection", 502, { kind: "unreachable", cause: CAUSE }, /: could not reach the API server$/],
  [
    "a foreign certificate",
    502,
    { kind: "untrusted", cause: CAUSE },
    /certificate does not come from ca_cert$/,
  ],
  [
    "no credential of our own",
    502,
    { kind: "no_credential", cause: new Error("/etc/gateway/x: no such file") },
    /: the signer cannot read its token_file$/,
  ],
])("a token request answered with %s is rejected, reported and recorded: %d", async (...row) => {
  const [, expected, reply, says] = row;
  const signer = await startClusterSigner({ reply: () => reply });
  const { status, body } = await signer.act(GET);
  assert.equal(status, expected);
  assert.match(String(body.detail), says);
  assert.match(String(body.detail), /^minting token for gateway\/agent on "prod": /);
  assert.deepEqual(signer.log.entries.map(({ outcome, err }) => [outcome, err]), [["denied", body.detail]]);
});

Deno.test("a token without an ID is issued, and its record has no ID", async () => {
  const reply = () => minted({ token: "opaque", expirationTimestamp: EXPIRY });
  const signer = await startClusterSigner({ reply });
  assert.equal((await signer.act(GET)).body["k8s_token"], "opaque");
  assert.doesNotMatch(String(signer.log.entries[0]?.command), /jti/);
});
