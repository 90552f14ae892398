import assert from "node:assert/strict";
import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { ALONE } from "@gateway/shared/instances";
import { stringifyJson } from "@gateway/shared/json";
import { actionFields } from "../testing/cluster_scene.ts";
import { FakeSecrets, startLeaseSigner } from "../testing/lease_scene.ts";
import { post } from "../testing/memory_signer.ts";

type Signer = Awaited<ReturnType<typeof start>>;
type Event = readonly [name: string, happen: (signer: Signer) => Promise<void>, code: string];

/** Of the only certificate that there is; the random bytes are fixed. */
const SERIAL = 0xfefefefefefefefen;
const KEY_ID = "agent=broker-1 host=web01 role=target t=1700000000 user=alice";

/** A signer of hosts, and of a cluster with tokens that can be taken back. */
async function start() {
  const group = { isStale: false };
  const secrets = new FakeSecrets();
  const signer = await startLeaseSigner({
    secrets,
    instances: {
      ...ALONE,
      requireFresh() {
        if (group.isStale) throw new AppError("state_stale", "nobody knows");
      },
    },
  });
  return { ...signer, group, secrets };
}

/** Makes something happen once the first record of an outcome is written, before whoever wrote it goes on. */
function after(outcome: string, { log }: Signer, happen: () => Promise<void>): void {
  const append = log.append.bind(log);
  let isDone = false;
  log.append = async (entry: AuditEntry) => {
    await append(entry);
    if (entry.outcome !== outcome || isDone) return;
    isDone = true;
    await happen();
  };
}

const told = (path: string, body: object) => async ({ send }: Signer) => {
  assert.equal((await send(post(path, stringifyJson(body)), "operator")).status, 200);
};
const freeze = (kind: string, value: string) => told("/v1/freeze", { kind, value, allow_volatile: true });
const unfreeze = (kind: string, value: string) => told("/v1/unfreeze", { kind, value });
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
/** The freeze is gone, the revocation is not. */
const UNDONE: Event = ["a freeze that was lifted", async (signer) => {
  await freeze("end_user", "alice")(signer);
  await unfreeze("end_user", "alice")(signer);
}, "frozen"];

const FORWARDED = { on_behalf_of: "broker-1", end_user: "alice" };
const LEARN = { ...FORWARDED, learn_ttl_seconds: 60, learn_approver: "bob" };
const CLUSTER = actionFields("get pods web/web-1");

const asked = (fields: Record<string, unknown>, events: readonly Event[], outcome = "issued") =>
  events.map(([event, happen, code]) => ({ event, outcome, fields, happen, code }));

Deno.test.each([
  ...asked(FORWARDED, [...FREEZES, ...REVOCATIONS]),
  ...asked(LEARN, [...FREEZES, ...REVOCATIONS, UNDONE], "approval-waiver-skipped"),
])("a certificate does not leave after $event, acknowledged behind the record $outcome", async (row) => {
  const signer = await start();
  after(row.outcome, signer, () => row.happen(signer));
  const { body } = await signer.sign(row.fields, "control-plane");
  assert.deepEqual([body.code, body.certificate], [row.code, undefined]);
  const last = signer.log.entries.at(-1);
  assert.equal(last?.outcome, row.code === "frozen" ? "frozen_denied" : "stale_denied");
  assert.ok(signer.krl.listed.has({ serial: SERIAL }), "it is revoked all the same");
});

Deno.test.each([
  ...asked({ ...FORWARDED, ...CLUSTER }, [...FREEZES, OF_SERIAL]),
  ...asked({ ...LEARN, ...CLUSTER }, [...FREEZES, OF_SERIAL], "approval-waiver-skipped"),
])("a token does not leave after $event, acknowledged behind the record $outcome", async (row) => {
  const signer = await start();
  after(row.outcome, signer, () => row.happen(signer));
  const { body } = await signer.sign(row.fields, "control-plane");
  assert.deepEqual([body.code, body["k8s_token"]], [row.code, undefined]);
  await signer.leases.sweep();
  assert.equal(signer.secrets.uids.size, 0, "the API server refuses it");
});

Deno.test("a certificate is withheld without a wait for the database, in which it is revoked later", async () => {
  const signer = await start();
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

Deno.test("a certificate that its caller may approve itself does not leave after a freeze", async () => {
  const signer = await start();
  after("self_approved", signer, () => freeze("caller", "approver-broker")(signer));
  const { body } = await signer.sign(
    { command: "systemctl restart nginx", approved: true },
    "approver-broker",
  );
  assert.deepEqual([body.code, body.certificate], ["frozen", undefined]);
  assert.equal(signer.log.entries.at(-1)?.serial, SERIAL);
});

Deno.test.each([
  ...["hosts", "clusters"].flatMap((what) => {
    const fields = { ...FORWARDED, ...(what === "clusters" && CLUSTER) };
    const preflight = { ...fields, dry_run: true, preflight: true };
    return asked(preflight, FREEZES, "dry_run_allowed").map((row) => ({ what, ...row }));
  }),
])("a preflight of $what allows nothing after $event", async ({ outcome, fields, happen, code }) => {
  const signer = await start();
  after(outcome, signer, () => happen(signer));
  const { body } = await signer.sign(fields, "control-plane");
  assert.deepEqual([body.code, body.decision], [code, undefined]);
});

Deno.test("nothing is parked for a human after a freeze", async () => {
  const signer = await start();
  after("approval-required", signer, () => freeze("end_user", "alice")(signer));
  const { body } = await signer.sign(
    { ...FORWARDED, command: "systemctl restart nginx" },
    "control-plane",
  );
  assert.equal(body.code, "frozen");
});

Deno.test("no waiver is learned from a view that is too old", async () => {
  const signer = await start();
  after("issued", signer, () => growOld(signer));
  const { body } = await signer.sign(
    { ...LEARN, command: "systemctl restart nginx", approved: true },
    "control-plane",
  );
  assert.equal(body.code, "state_stale");
  assert.deepEqual(signer.live.listGrants(), []);
});
