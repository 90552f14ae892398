import assert from "node:assert/strict";
import { SshReader } from "@gateway/shared/ssh";
import { FakeClock } from "@gateway/shared/testing";
import { type Freeze, NO_FREEZES, withFreeze } from "../freezes.ts";
import type { StateStore } from "../state/store.ts";
import { failingStore, memoryStore } from "../../testing/failing_store.ts";
import { QUIET_LIST } from "../../testing/live_state_scene.ts";
import {
  type CertificateHolder,
  type CertificateSubject,
  type PublishedList,
  REVOCATION_SECONDS,
} from "./certificates.ts";
import type { RecordedCertificate } from "./recorded.ts";
import { RevocationList } from "./revocation_list.ts";

const NOW = 1_700_000_000_000;
const HOLDER: CertificateHolder = {
  peer: "broker-1",
  caller: "broker-1",
  endUser: "",
  host: "web01",
  role: "target",
  elevationPrefix: "",
  pty: false,
};
const OTHER = { caller: "broker-2", peer: "broker-2" };
const CALLER: CertificateSubject = { kind: "caller", value: "broker-1" };
const CALLER_FREEZE = { kind: "caller", value: "broker-1", reason: "", frozenBy: "operator" } as const;

async function open(
  store: StateStore = failingStore(),
  { now = NOW, freezes = NO_FREEZES, records = [] as readonly RecordedCertificate[] } = {},
) {
  const clock = new FakeClock(now);
  const counts = { errors: 0, logged: 0 };
  const list = await RevocationList.open({
    ...{ ...QUIET_LIST, store, clock, forwarders: ["control-plane"] },
    logger: { info() {}, warn() {}, error: () => counts.logged++ },
    onStoreError: () => counts.errors++,
    readRecords: async function* (since) {
      for (const record of records) if (record.recordedAt >= since) yield record;
    },
  }, freezes);
  const add = (serial: bigint, changes: Partial<CertificateHolder> = {}, ttl = 300) => {
    const issuedAt = Math.floor(clock.now() / 1000);
    list.add({ ...HOLDER, ...changes }, { serial, issuedAt, validBefore: issuedAt + ttl });
  };
  return { list, clock, counts, add };
}

/** The serials and key IDs in a list. */
function contentOf({ bytes, version }: PublishedList): readonly (bigint | string)[] {
  const reader = new SshReader(bytes);
  reader.raw(12);
  assert.equal(reader.u64(), BigInt(version), "the version that is announced is the one that is signed");
  reader.raw(16);
  reader.string();
  reader.string();
  const found: (bigint | string)[] = [];
  while (!reader.done) {
    reader.raw(1);
    const section = reader.nested();
    section.string();
    section.string();
    while (!section.done) {
      const [type] = section.raw(1);
      const inside = section.nested();
      while (!inside.done) found.push(type === 0x20 ? inside.u64() : inside.text());
    }
  }
  return found;
}

Deno.test("revoke() of a caller lists only its certificates, in a new version", async () => {
  const { list, add } = await open();
  const before = list.current;
  add(7n);
  add(8n, OTHER);
  add(9n);
  assert.deepEqual(await list.revoke([CALLER]), { revoked: 2, version: before.version + 1, persisted: true });
  assert.deepEqual(contentOf(list.current), [7n, 9n]);
  assert.deepEqual(contentOf(before), [], "the version before stays as it was");
  assert.equal(list.version(before.version), before, "whoever fetched it can still ask for its signature");
});

Deno.test("revoke() of listed or unknown certificates creates no new version", async () => {
  const { list, add } = await open();
  const { version } = list.current;
  assert.deepEqual(await list.revoke([CALLER]), { revoked: 0, version, persisted: true });
  add(7n);
  await list.revoke([CALLER]);
  const again = await list.revoke([CALLER, { kind: "serial", value: "7" }]);
  assert.deepEqual(again, { revoked: 0, version: version + 1, persisted: true });
});

Deno.test("revoke() lists serials and key IDs that are unknown to this signer, and ignores invalid serials", async () => {
  const { list } = await open();
  const { revoked } = await list.revoke([
    { kind: "serial", value: "18446744073709551615" },
    { kind: "key_id", value: "agent=a host=b role=target t=1" },
    ...["0", "18446744073709551616", "abc"].map((value): CertificateSubject => ({ kind: "serial", value })),
  ]);
  assert.equal(revoked, 0);
  assert.deepEqual(contentOf(list.current), [2n ** 64n - 1n, "agent=a host=b role=target t=1"]);
});

Deno.test("a certificate with serial 0 does not prevent the revocation of others", async () => {
  const { list, add } = await open();
  add(0n);
  add(7n);
  await list.revoke([CALLER]);
  assert.deepEqual(contentOf(list.current), [7n]);
});

Deno.test("an entry leaves the list 60 s after its certificate expired", async () => {
  const { list, clock, add } = await open();
  add(7n, {}, 300);
  add(8n, {}, 900);
  const { version } = await list.revoke([CALLER]);
  await clock.advance(359_000);
  await list.sweep();
  assert.equal(list.current.version, version);
  await clock.advance(1_000);
  await list.sweep();
  assert.deepEqual(contentOf(list.current), [8n]);
  await clock.advance(600_000);
  await list.sweep();
  assert.deepEqual(contentOf(list.current), []);
});

Deno.test("issued and revoked certificates persist across a restart, even without the freeze", async () => {
  const store = failingStore();
  const first = await open(store);
  first.add(7n);
  first.add(8n, OTHER);
  await first.list.revoke([CALLER, { kind: "key_id", value: "a t=1" }]);
  first.add(9n, OTHER);
  await first.list.close();
  const second = await open(store, { now: NOW + 1000 });
  assert.deepEqual(contentOf(second.list.current), [7n, "a t=1"]);
  assert.equal((await second.list.revoke([{ kind: "caller", value: "broker-2" }])).revoked, 2);
});

Deno.test("certificates are stored within 250 ms and before a revocation that covers them", async () => {
  const store = failingStore();
  const { list, clock, add } = await open(store);
  add(7n);
  assert.deepEqual(await store.loadCertificates(NOW), []);
  await clock.advance(250);
  assert.deepEqual((await store.loadCertificates(NOW)).map(({ serials }) => serials), [[7n]]);
  add(8n);
  await list.revoke([CALLER]);
  const second = await open(store);
  assert.deepEqual(contentOf(second.list.current), [7n, 8n], "a process killed after that loses nothing");
});

Deno.test("a certificate that is issued during a store write is stored as well", async () => {
  const store = failingStore();
  const { list, add, clock } = await open(store);
  const disk = Promise.withResolvers<void>();
  store.held.set("addCertificates", disk.promise);
  add(7n);
  await clock.advance(250);
  add(8n);
  disk.resolve();
  await list.close();
  const stored = await store.loadCertificates(NOW);
  assert.deepEqual(stored.flatMap(({ serials }) => serials), [7n, 8n]);
});

Deno.test("the version increases across restarts with a clock that was set back", async () => {
  const store = failingStore();
  const first = await open(store);
  first.add(7n);
  const { version } = await first.list.revoke([CALLER]);
  const second = await open(store, { now: NOW - 3_600_000 });
  assert.ok(second.list.current.version > version);
  const third = await open(store, { now: NOW - 7_200_000 });
  assert.ok(third.list.current.version > second.list.current.version);
  third.add(8n);
  assert.equal((await third.list.revoke([CALLER])).version, third.list.current.version);
  assert.ok(third.list.current.version > second.list.current.version + 1);
});

Deno.test("without a state_db the version is the clock's time in milliseconds", async () => {
  const { list, clock, add } = await open(memoryStore());
  assert.equal(list.current.version, NOW);
  add(7n);
  await clock.advance(5_000);
  assert.equal((await list.revoke([CALLER])).version, NOW + 5_000);
});

Deno.test.each<{ name: string; freeze: Pick<Freeze, "kind" | "value">; expected: readonly bigint[] }>([
  { name: "caller", freeze: { kind: "caller", value: "broker-1" }, expected: [7n] },
  { name: "serial", freeze: { kind: "serial", value: "9" }, expected: [9n] },
  { name: "session", freeze: { kind: "session_id", value: "9" }, expected: [] },
])(
  "a freeze of a $name is in the list after a restart if only the freeze was stored",
  async ({ freeze, expected }) => {
    const store = failingStore();
    const first = await open(store);
    first.add(7n);
    await first.list.close();
    const freezes = withFreeze(NO_FREEZES, { ...freeze, reason: "", frozenBy: "operator", frozenAt: NOW });
    const second = await open(store, { freezes });
    assert.deepEqual(contentOf(second.list.current), expected);
    const later = await open(store, { freezes, now: NOW + 961_000 });
    assert.deepEqual(contentOf(later.list.current), [], "no host believes the certificate any more");
  },
);

Deno.test("a revocation is in force if the store write fails, reports persisted: false and is stored later", async () => {
  const store = failingStore();
  const { list, counts, add } = await open(store);
  store.failing.add("addCertificates").add("putRevocations");
  add(7n);
  assert.equal((await list.revoke([CALLER])).persisted, false);
  assert.deepEqual(contentOf(list.current), [7n]);
  add(8n);
  assert.equal((await list.revoke([CALLER])).persisted, false);
  assert.deepEqual(counts, { errors: 2, logged: 1 });
  assert.deepEqual(contentOf((await open(store)).list.current), []);
  store.failing.clear();
  await list.sweep();
  assert.deepEqual(contentOf((await open(store)).list.current), [7n, 8n]);
});

/** A certificate of another instance, issued at a second of that instance's clock. */
const issuedElsewhere = (serial: bigint, issuedAt: number) => ({
  certificates: [{ holder: HOLDER, issuedAt, validBefore: issuedAt + 300, serials: [serial] }],
});

Deno.test("a caller's revocation covers earlier certificates that appear later, also at another signer", async () => {
  const store = memoryStore();
  const { list } = await open(store);
  await list.revoke([CALLER]);
  const revocations = await store.loadRevocations(0);
  assert.deepEqual(revocations, [{ ...CALLER, revokedAt: NOW }]);
  const other = await open(store);
  const krlVersion = await store.loadKrlVersion();
  await other.list.takeOver({ ...issuedElsewhere(7n, NOW / 1000), state: { revocations, krlVersion } });
  assert.deepEqual(contentOf(other.list.current), [7n]);
});

Deno.test("revoke() covers a certificate from a clock that is ahead, also at other signers", async () => {
  const store = memoryStore();
  const { list } = await open(store);
  const ahead = issuedElsewhere(7n, NOW / 1000 + 20);
  await list.takeOver({ ...ahead, state: { revocations: [], krlVersion: 0 } });
  assert.equal((await list.revoke([CALLER])).revoked, 1);
  const other = await open(store);
  const revocations = await store.loadRevocations(0);
  await other.list.takeOver({ ...ahead, state: { revocations, krlVersion: 0 } });
  assert.deepEqual(contentOf(other.list.current), [7n]);
});

Deno.test("a certificate of a frozen caller found in the audit log of a killed signer is revoked for all signers", async () => {
  const store = memoryStore();
  const freezes = withFreeze(NO_FREEZES, { ...CALLER_FREEZE, frozenAt: NOW });
  await open(store, { freezes, records: [{ ...RECORD, endUser: "", recordedAt: NOW }] });
  assert.deepEqual(await store.loadRevocations(0), [{ ...CALLER, revokedAt: NOW }]);
});

Deno.test("a list that changes because of other signers' certificates gets a unique version", async () => {
  const store = memoryStore();
  const { list } = await open(store);
  await list.revoke([CALLER]);
  const revocations = await store.loadRevocations(0);
  // The other signers have higher versions. This signer must not mistake their lists for its own.
  await store.putRevocations([], NOW + 60_000);
  await list.takeOver({ certificates: [], state: { revocations, krlVersion: NOW + 60_000 } });
  assert.equal(list.current.version, NOW + 60_000);
  await store.putRevocations([], NOW + 70_000);
  // The revoked content is unchanged, so it is not sent.
  await list.takeOver(issuedElsewhere(7n, NOW / 1000));
  assert.deepEqual(contentOf(list.current), [7n]);
  assert.equal(list.current.version, NOW + 70_001);
  assert.equal(await store.loadKrlVersion(), NOW + 70_001);
});

Deno.test("newerThan() returns a newer list immediately, or otherwise the next list", async () => {
  const { list, add } = await open();
  const { version } = list.current;
  assert.equal(await list.newerThan(version - 1), list.current);
  const waiting = list.newerThan(version);
  add(7n);
  await list.revoke([CALLER]);
  assert.equal(await waiting, list.current);
  assert.equal(list.current.version, version + 1);
});

Deno.test("newerThan() returns undefined after 25 s, if the reader disconnects and on shutdown", async () => {
  const { list, clock } = await open();
  const { version } = list.current;
  const slow = list.newerThan(version);
  await clock.advance(25_000);
  assert.equal(await slow, undefined);
  const gone = new AbortController();
  const left = list.newerThan(version, gone.signal);
  gone.abort();
  assert.equal(await left, undefined);
  const last = list.newerThan(version);
  list.release();
  assert.equal(await last, undefined);
  assert.equal(await list.newerThan(version), undefined, "also one that comes while the signer stops");
});

Deno.test("newerThan() with a future version waits 25 s and does not raise the list's version", async () => {
  const { list, clock, add } = await open();
  const waiting = list.newerThan(Number.MAX_SAFE_INTEGER);
  add(7n);
  const { version } = await list.revoke([CALLER]);
  assert.ok(version < NOW + 1000);
  await clock.advance(25_000);
  assert.equal(await waiting, undefined);
});

const RECORD: RecordedCertificate = {
  caller: "broker-1",
  endUser: "alice",
  host: "10.0.0.1:22",
  role: "target",
  serial: 7n,
  recordedAt: NOW - 1000,
};

Deno.test.each<[name: string, subject: CertificateSubject]>([
  ["its caller", CALLER],
  ["its end user", { kind: "end_user", value: "alice" }],
  ["the forwarder that it may have come through", { kind: "caller", value: "control-plane" }],
])("a certificate known only from the audit log is revoked with %s", async (_name, subject) => {
  const { list } = await open(failingStore(), { records: [RECORD] });
  assert.equal((await list.revoke([subject])).revoked, 1);
  assert.deepEqual(contentOf(list.current), [7n]);
});

Deno.test("a certificate known only from the audit log is listed immediately if its caller is frozen", async () => {
  const freezes = withFreeze(NO_FREEZES, { ...CALLER_FREEZE, frozenAt: NOW - 500 });
  const { list } = await open(failingStore(), { records: [RECORD], freezes });
  assert.deepEqual(contentOf(list.current), [7n]);
});

Deno.test("certificates found in the audit log are stored once and not again on the next start", async () => {
  const store = failingStore();
  await open(store, { records: [RECORD] });
  const stored = await store.loadCertificates(NOW);
  assert.deepEqual(stored.map(({ holder: { peer }, serials }) => ({ peer, serials })), [
    { peer: "broker-1", serials: [7n] },
    { peer: "control-plane", serials: [7n] },
  ]);
  await open(store, { records: [RECORD, { ...RECORD, serial: 8n }] });
  const again = await store.loadCertificates(NOW);
  assert.deepEqual(again.flatMap(({ serials }) => serials), [7n, 7n, 8n, 8n]);
});

Deno.test("records are read back until a long run of stored certificates is found", async () => {
  const store = failingStore();
  const record = (serial: number) => ({ ...RECORD, serial: BigInt(serial), recordedAt: NOW - serial });
  const stored = Array.from({ length: 3000 }, (_, index) => record(index + 1));
  await open(store, { records: stored.filter(({ serial }) => serial !== 500n && serial !== 2900n) });
  // Another signer of the store has issued since. This signer finds the certificate that it could not store.
  await store.addCertificates(issuedElsewhere(1n, NOW / 1000).certificates);
  const { list } = await open(store, { records: stored });
  assert.deepEqual(list.issued.findOwn(RECORD.caller, [500n, 2900n]), [500n]);
});

Deno.test("records that are older than any valid certificate are ignored", async () => {
  const records = [{ ...RECORD, recordedAt: NOW - 1000 * REVOCATION_SECONDS - 1 }];
  const { list } = await open(failingStore(), { records });
  assert.equal((await list.revoke([CALLER])).revoked, 0);
});
