import assert from "node:assert/strict";
import type { Freeze } from "../../signer/live/freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import { memoryStore } from "../../signer/testing/failing_store.ts";
import type { StateStore } from "../../signer/live/state/store.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { batchOf, freezeOf, grantOf, leaseOf, NOW, openShared, StateFolder } from "./state_fixture.ts";

type Check = (store: StateStore) => Promise<void>;

const CONTRACT: Readonly<Record<string, Check>> = {
  async "an empty store has nothing"(store) {
    assert.deepEqual([await store.loadGrants(0), await store.loadFreezes()], [[], []]);
    assert.equal(await store.deleteGrant("none"), false);
    assert.equal(await store.deleteFreeze(freezeOf()), false);
    assert.equal(await store.purgeExpired(NOW), 0);
    await store.checkpoint();
  },

  async "certificates come back as they were added, until no host believes them"(store) {
    const [batch, other] = [batchOf(), batchOf({ serials: [5n], validBefore: NOW / 1000 + 1 })];
    await store.addCertificates([batch, other]);
    await store.addCertificates([]);
    assert.deepEqual(await store.loadCertificates(NOW), [batch, other]);
    assert.deepEqual(await store.loadCertificates(NOW + 60_999), [batch, other]);
    assert.deepEqual(await store.loadCertificates(NOW + 61_000), [batch]);
    await store.purgeExpired(NOW + 61_000);
    assert.deepEqual(await store.loadCertificates(0), [batch]);
  },

  async "a certificate whose text can't be kept is refused, and none of its batch is kept"(store) {
    const bad = batchOf({ holder: { ...batchOf().holder, endUser: "a\0b" } });
    await assert.rejects(store.addCertificates([batchOf(), bad]), /not storable/);
    assert.deepEqual(await store.loadCertificates(NOW), []);
  },

  async "revocations come back the last of each subject, until no host believes what they are of"(store) {
    await store.putRevocations([{ kind: "caller", value: "a", revokedAt: NOW }], 5);
    const keyId = { kind: "key_id", value: "a ä", revokedAt: NOW } as const;
    const kept = [{ kind: "caller", value: "a", revokedAt: NOW + 9_000 }, keyId] as const;
    await store.putRevocations(kept, 6);
    const byKind = async (since: number) =>
      (await store.loadRevocations(since)).toSorted((left, right) => left.kind < right.kind ? -1 : 1);
    assert.deepEqual(await byKind(0), kept);
    assert.deepEqual(await byKind(NOW), [kept[0]]);
    await store.purgeExpired(NOW + 960_000);
    assert.deepEqual(await byKind(0), [kept[0]]);
  },

  async "a decision document is used by one of concurrent changes"(store) {
    const used = (value: string) => ({ kind: "document", value, revokedAt: NOW }) as const;
    const results = await Promise.all([1, 2].map(() => store.useDocuments([used("a")])));
    assert.deepEqual(results.sort(), [false, true]);
    assert.equal(await store.useDocuments([used("b"), used("a")]), false);
    assert.equal(await store.useDocuments([used("c"), used("d")]), true);
  },

  async "a revocation that is written later and was made earlier takes nothing back"(store) {
    await store.putRevocations([{ kind: "caller", value: "a", revokedAt: NOW + 9_000 }]);
    const kept = [{ kind: "caller", value: "a", revokedAt: NOW + 9_000 }];
    await store.putRevocations([{ kind: "caller", value: "a", revokedAt: NOW }]);
    assert.deepEqual(await store.loadRevocations(0), kept);
    const ofA = (revokedAt: number) => ({ kind: "caller", value: "a", revokedAt }) as const;
    const both = [NOW + 1_000, NOW + 20_000, NOW].map(ofA);
    await store.putRevocations(both);
    assert.deepEqual(await store.loadRevocations(0), [both[1]]);
  },

  async "a thousand revocations are one change"(store) {
    const serial = (value: number) => ({ kind: "serial", value: `${value}`, revokedAt: NOW }) as const;
    await store.putRevocations(Array.from({ length: 1000 }, (_, index) => serial(index + 1)), 7);
    assert.equal((await store.loadRevocations(0)).length, 1000);
    const bad = { kind: "caller", value: "a\0b", revokedAt: NOW } as const;
    await assert.rejects(store.putRevocations([{ ...bad, value: "fine" }, bad]), /not storable/);
    assert.equal((await store.loadRevocations(0)).length, 1000);
  },

  async "leases come back the last of each name of a cluster, until they are deleted"(store) {
    const lease = leaseOf();
    await store.putLease(leaseOf({ uid: "", peers: [] }));
    await store.putLease(lease);
    const other = leaseOf({ cluster: "dev", endUser: "ä b", expiresAt: 0 });
    await store.putLease(other);
    const byCluster = async () =>
      (await store.loadLeases()).toSorted((left, right) => left.cluster < right.cluster ? -1 : 1);
    assert.deepEqual(await byCluster(), [other, lease]);
    await store.deleteLease(lease);
    await store.deleteLease(lease);
    assert.deepEqual(await byCluster(), [other]);
    await assert.rejects(store.putLease(leaseOf({ caller: "a\0b" })), /not storable/);
  },

  async "each change of the list has a version of its own, whatever the clock of whoever makes it"(store) {
    assert.equal(await store.loadKrlVersion(), 0);
    assert.equal(await store.putRevocations([], 1_700_000_000_123), 1_700_000_000_123);
    assert.equal(await store.putRevocations([], 1_700_000_000_123), 1_700_000_000_124);
    assert.equal(await store.putRevocations([], 5), 1_700_000_000_125);
    assert.equal(await store.putRevocations([]), 1_700_000_000_125);
    assert.equal(await store.loadKrlVersion(), 1_700_000_000_125);
  },

  async "a grant comes back as it was given"(store) {
    const grant = grantOf({
      allow: ['^echo "é\\n$', "\u{1F600}", "a\0b"],
      waiveApproval: ["^systemctl restart nginx$"],
      caller: "broker-1",
      endUser: "alice@example.com",
      sudo: true,
      sudoUser: "root",
      approvalId: "a1",
    });
    await store.insertGrant(grant);
    assert.deepEqual(await store.loadGrants(NOW), [grant]);
  },

  async "times are kept in whole seconds, rounded down"(store) {
    await store.insertGrant(grantOf({ grantedAt: NOW + 999, expiresAt: NOW + 1999 }));
    await store.putFreeze(freezeOf({ frozenAt: NOW + 999 }));
    const [grant] = await store.loadGrants(NOW);
    assert.deepEqual([grant?.grantedAt, grant?.expiresAt], [NOW, NOW + 1000]);
    assert.equal((await store.loadFreezes())[0]?.frozenAt, NOW);
  },

  async "grants come back the oldest first, without the expired"(store) {
    await store.insertGrant(grantOf({ id: "c", grantedAt: NOW }));
    await store.insertGrant(grantOf({ id: "b", grantedAt: NOW - 2000 }));
    await store.insertGrant(grantOf({ id: "a", grantedAt: NOW }));
    await store.insertGrant(grantOf({ id: "d", expiresAt: NOW }));
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["b", "a", "c"]);
    assert.deepEqual(ids(await store.loadGrants(NOW - 1)), ["b", "a", "c", "d"]);
  },

  async "expired grants are purged and no others"(store) {
    await store.insertGrant(grantOf({ id: "a", expiresAt: NOW }));
    await store.insertGrant(grantOf({ id: "b", expiresAt: NOW + 1000 }));
    assert.equal(await store.purgeExpired(NOW), 1);
    assert.deepEqual(ids(await store.loadGrants(0)), ["b"]);
  },

  async "a second grant of an id is refused and changes nothing"(store) {
    await store.insertGrant(grantOf({ id: "a" }));
    await store.insertGrant(grantOf({ id: "b" }));
    await assert.rejects(store.insertGrant(grantOf({ id: "a", caller: "x" }), ["b"]), { code: "internal" });
    const grants = await store.loadGrants(NOW);
    assert.deepEqual([ids(grants), grants[0]?.caller], [["a", "b"], ""]);
  },

  async "a grant takes the place of those it replaces (A4)"(store) {
    await store.insertGrant(grantOf({ id: "a" }));
    await store.insertGrant(grantOf({ id: "b" }));
    await store.insertGrant(grantOf({ id: "c" }), ["a", "gone"]);
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["b", "c"]);
  },

  async "a deleted grant is gone (K22)"(store) {
    await store.insertGrant(grantOf({ id: "a" }));
    assert.equal(await store.deleteGrant("a"), true);
    assert.equal(await store.deleteGrant("a"), false);
    assert.deepEqual(await store.loadGrants(0), []);
  },

  async "a scope that would come back shorter is refused"(store) {
    for (const fields of [{ caller: "\0x" }, { endUser: "a\0" }, { host: "w\0" }, { caller: "\ud800" }]) {
      await assert.rejects(store.insertGrant(grantOf(fields)), { code: "internal" });
    }
    await assert.rejects(store.putFreeze(freezeOf({ value: "broker-1\0" })), { code: "internal" });
    assert.deepEqual([await store.loadGrants(0), await store.loadFreezes()], [[], []]);
  },

  async "every kind of freeze is kept, a second one replaces the first"(store) {
    const freezes = (["caller", "end_user", "session_id", "serial"] as const)
      .map((kind) => freezeOf({ kind, value: "18446744073709551615" }));
    for (const freeze of freezes) await store.putFreeze(freeze);
    const again = freezeOf({ kind: "serial", value: "18446744073709551615", reason: "", frozenBy: "b" });
    await store.putFreeze(again);
    assert.deepEqual(sorted(await store.loadFreezes()), sorted([...freezes.slice(0, 3), again]));
    assert.equal(await store.deleteFreeze({ kind: "serial", value: "18446744073709551615" }), true);
    assert.deepEqual(sorted(await store.loadFreezes()), sorted(freezes.slice(0, 3)));
  },

  async "a freeze takes exactly the grants of its subject along, in one change (K4)"(store) {
    await fillScopes(store);
    await store.putFreeze(freezeOf({ kind: "caller", value: "x" }));
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["any", "user-x", "user-y"]);
    await store.putFreeze(freezeOf({ kind: "end_user", value: "x" }));
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["any", "user-y"]);
  },

  async "a subject is the same however its name is written, and takes its grants along"(store) {
    const scopes = ["x", "X.", "\uff38", "y"];
    for (const [id, caller] of scopes.entries()) await store.insertGrant(grantOf({ id: `${id}`, caller }));
    await store.putFreeze(freezeOf({ kind: "caller", value: "x" }));
    await store.putFreeze(freezeOf({ kind: "caller", value: "X" }));
    await store.putFreeze(freezeOf({ kind: "session_id", value: "x" }));
    await store.putFreeze(freezeOf({ kind: "session_id", value: "X" }));
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["3"]);
    assert.equal((await store.loadFreezes()).length, 3);
    assert.equal(await store.deleteFreeze({ kind: "caller", value: "x." }), true);
    assert.equal((await store.loadFreezes()).length, 2);
  },

  async "a freeze of a session or a serial takes no grants along"(store) {
    await fillScopes(store);
    await store.putFreeze(freezeOf({ kind: "session_id", value: "x" }));
    await store.putFreeze(freezeOf({ kind: "serial", value: "x" }));
    assert.equal((await store.loadGrants(NOW)).length, 5);
  },

  async "lifting a freeze takes along the grants that its subject has got meanwhile (K4)"(store) {
    await store.putFreeze(freezeOf({ kind: "caller", value: "x" }));
    await fillScopes(store);
    assert.equal(await store.deleteFreeze({ kind: "caller", value: "x" }), true);
    assert.deepEqual(ids(await store.loadGrants(NOW)), ["any", "user-x", "user-y"]);
  },

  async "lifting a freeze that is not there changes nothing"(store) {
    await fillScopes(store);
    assert.equal(await store.deleteFreeze({ kind: "caller", value: "x" }), false);
    assert.equal((await store.loadGrants(NOW)).length, 5);
  },

  async "texts are data and never part of a statement"(store) {
    const text = `'; DELETE FROM grants; --":x`;
    await store.insertGrant(grantOf({ id: text, caller: text, endUser: text, host: text }));
    await store.putFreeze(freezeOf({ value: `${text}2`, reason: text }));
    assert.deepEqual(ids(await store.loadGrants(NOW)), [text]);
    assert.equal((await store.loadFreezes())[0]?.reason, text);
  },

  async "a closed store fails instead of forgetting"(store) {
    await store.close();
    await store.close();
    await assert.rejects(() => store.loadFreezes(), { code: "internal" });
    await assert.rejects(() => store.putFreeze(freezeOf()), { code: "internal" });
    await assert.rejects(() => store.checkpoint(), { code: "internal" });
  },
};

async function fillScopes(store: StateStore): Promise<void> {
  const scopes = {
    any: {},
    "caller-x": { caller: "x" },
    both: { caller: "x", endUser: "y" },
    "user-x": { endUser: "x" },
    "user-y": { caller: "y", endUser: "y" },
  };
  let grantedAt = NOW;
  for (const [id, scope] of Object.entries(scopes)) {
    grantedAt += 1000;
    await store.insertGrant(grantOf({ id, grantedAt, expiresAt: grantedAt + 60_000, ...scope }));
  }
}

const ids = (grants: readonly Grant[]) => grants.map(({ id }) => id);

const sorted = (freezes: readonly Freeze[]) => [...freezes].sort((a, b) => a.kind < b.kind ? -1 : 1);

for (const [name, check] of Object.entries(CONTRACT)) {
  Deno.test(`SqliteStore in memory: ${name}`, async () => {
    const store = memoryStore();
    await check(store);
    assert.equal(store.survivesRestart, false);
    await store.close();
  });

  Deno.test(`SqliteStore: ${name}`, async () => {
    using folder = new StateFolder();
    const store = folder.open();
    await check(store);
    await store.close();
    assert.deepEqual(folder.warnings, []);
  });
}

Deno.test({
  name: "PostgresStore: satisfies the contract of all stores",
  ignore: isPostgresMissing,
  async fn(test) {
    await using server = await PostgresServer.start();
    for (const [name, check] of Object.entries(CONTRACT)) {
      await test.step(name, async () => {
        const warnings: string[] = [];
        const store = await openShared({ state_db: server.url() }, warnings);
        await check(store);
        await store.close();
        assert.deepEqual(warnings, []);
        await server.sql("DROP SCHEMA signer CASCADE");
      });
    }
  },
});
