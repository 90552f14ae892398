import { APPROVED, baselineOf, CONTRACT, ids } from "./control_store_contract.ts";
import assert from "node:assert/strict";
import type { ApprovalState } from "../../control_plane/approvals/approval.ts";
import { FakeClock } from "@gateway/shared/testing";
import { park, RegistryScene } from "../../control_plane/testing/registry_scene.ts";
import { openMemoryStore } from "../../control_plane/testing/failing_control_store.ts";
import type { ControlStore } from "../../control_plane/state/store.ts";
import { approvalOf, CREATED_AT, EVER } from "../../control_plane/testing/sample_approval.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { type Around, share } from "../stage/share.ts";
import { ControlFolder, openShared } from "./control_store_fixture.ts";

for (const [name, check] of Object.entries(CONTRACT)) {
  Deno.test(`SqliteControlStore in memory: ${name}`, () => check(openMemoryStore()));

  Deno.test(`SqliteControlStore: ${name}`, async () => {
    using folder = new ControlFolder();
    const store = folder.open();
    await check(store);
    await store.close();
    assert.deepEqual(folder.warnings, []);
  });
}

const withServer = share<PostgresServer>(async (use) => {
  await using server = await PostgresServer.start();
  await use(server);
});

/** Runs a test on the shared server, in an empty schema. */
const withSchema: Around<PostgresServer> = (test) =>
  withServer(async (server) => {
    await server.sql("DROP SCHEMA IF EXISTS control_plane CASCADE");
    await test(server);
  });

Deno.test(
  "PostgresControlStore: satisfies the contract of all control stores",
  { ignore: isPostgresMissing },
  (test) =>
    withSchema(async (server) => {
      for (const [name, check] of Object.entries(CONTRACT)) {
        await test.step(name, async () => {
          await server.sql("DROP SCHEMA IF EXISTS control_plane CASCADE");
          const warnings: string[] = [];
          const store = await openShared(server.url(), warnings);
          await check(store);
          await store.close();
          assert.deepEqual(warnings, []);
        });
      }
    }),
);

Deno.test("PostgresControlStore: a control plane with a shorter timeout removes no other approvals", {
  ignore: isPostgresMissing,
}, () =>
  withSchema(async (server) => {
    const [patient, hasty] = [await openShared(server.url()), await openShared(server.url())];
    const clock = new FakeClock(Date.now());
    const registry = (store: ControlStore, timeoutSeconds: number) =>
      new RegistryScene().open({ store, clock, timeoutSeconds });
    const [slow, quick] = [await registry(patient, 3_600), await registry(hasty, 1)];
    const parked = await park(slow);
    await quick.takeOver((timing) => hasty.loadApprovals(timing));
    assert.equal(quick.pendingCount(), 1);
    // All instances keep the approval for the time that the parking instance set.
    await clock.advance(60_000);
    assert.equal(quick.pendingCount(), 1);
    await quick.close();
    await registry(hasty, 1);
    assert.deepEqual(ids(await patient.loadApprovals(EVER)), [parked.id]);
    assert.equal(slow.pendingCount(), 1);
    await server.sql("UPDATE control_plane.approvals SET kept_until = 1, timeout_ms = 1000");
    await registry(hasty, 1);
    assert.deepEqual(await patient.loadApprovals(EVER), []);
    for (const store of [patient, hasty]) await store.close();
  }));

Deno.test("PostgresControlStore: an instance keeps what another instance has learned of a subject", {
  ignore: isPostgresMissing,
}, () =>
  withSchema(async (server) => {
    const [a, b] = [await openShared(server.url()), await openShared(server.url())];
    const put = (store: ControlStore, lastSeen: number, ...hosts: readonly string[]) =>
      store.putBaseline(baselineOf({ lastSeen, hosts }));
    const stored = async () => (await a.loadBaselines()).map(({ lastSeen, hosts }) => [lastSeen, ...hosts]);
    await put(b, 10, "web01", "web02");
    await put(b, 20, "web02");
    assert.deepEqual(await stored(), [[20, "web02"]], "its own it replaces");
    const c = await openShared(server.url());
    await put(c, 15, "db01");
    await put(b, 30, "web02");
    await put(c, 31, "db01", "db02");
    // This subject was not requested for that long, but others were.
    await a.deleteBaselines(["a"]);
    assert.deepEqual(await stored(), [[31, "web02", "db01", "db02"]]);
    assert.deepEqual((await b.findBaseline?.("a"))?.hosts, ["web02", "db01", "db02"]);
    assert.equal(await b.findBaseline?.("b"), undefined);
    await a.deleteBaselines(["a"]);
    assert.deepEqual(await stored(), [], "what nobody has used since");
    await Promise.all([put(a, 40, "one"), put(b, 41, "two"), put(c, 42, "three")]);
    const [[lastSeen, ...hosts] = []] = await stored();
    assert.deepEqual([lastSeen, ...hosts.sort()], [42, "one", "three", "two"]);
    for (const store of [a, b, c]) await store.close();
  }));

Deno.test(
  "PostgresControlStore: of two concurrent decisions or collections only one succeeds",
  { ignore: isPostgresMissing },
  () =>
    withSchema(async (server) => {
      const stores = [await openShared(server.url()), await openShared(server.url())] as const;
      const race = async (states: readonly ApprovalState[]) => {
        const ended = await Promise.allSettled(
          states.map((state, index) => stores[index % 2]?.updateApproval(approvalOf({ id: "a", state }))),
        );
        return ended.map((each) =>
          each.status === "rejected" ? (each.reason as { code: string }).code : "done"
        )
          .sort();
      };
      for (let round = 0; round < 20; round++) {
        await stores[0].insertApproval(approvalOf({ id: "a" }));
        const approved = { kind: "approved", by: "ann", at: CREATED_AT + 1, learnTtlSeconds: 0 } as const;
        const denied = { kind: "denied", by: "bob", at: CREATED_AT + 1 } as const;
        assert.deepEqual(await race([approved, denied, approved, denied]), [
          "conflict",
          "conflict",
          "conflict",
          "done",
        ]);
        await server.sql("UPDATE control_plane.approvals SET status = 'approved', decided_by = 'ann'");
        const consumed = { ...approved, kind: "consumed" } as const;
        assert.deepEqual(await race([consumed, consumed, consumed]), ["done", "gone", "gone"]);
        await stores[1].deleteApprovals(["a"]);
      }
      for (const store of stores) await store.close();
    }),
);

Deno.test(
  "PostgresControlStore: of concurrent collectors one may sign, until it releases the claim or 30 s pass",
  { ignore: isPostgresMissing },
  () =>
    withSchema(async (server) => {
      const stores = await Promise.all([1, 2, 3].map(() => openShared(server.url())));
      const [first] = stores;
      assert.ok(first);
      const claims = async () => {
        const claimed = await Promise.all(stores.map((store) => store.claimCollection?.("a")));
        return claimed.filter(Boolean).length;
      };
      await first.insertApproval(approvalOf({ id: "a" }));
      assert.equal(await claims(), 0, "nobody has approved it");
      await first.updateApproval(approvalOf({ id: "a", state: APPROVED }));
      for (let round = 0; round < 20; round++) {
        assert.deepEqual([await claims(), await claims()], [1, 0]);
        await first.releaseCollection?.("a");
      }
      assert.equal(await claims(), 1);
      await server.sql("UPDATE control_plane.approvals SET claimed_until = claimed_until - 30000");
      assert.equal(await claims(), 1, "the one that claimed it was killed");
      await first.updateApproval(approvalOf({ id: "a", state: { ...APPROVED, kind: "consumed" } }));
      await first.releaseCollection?.("a");
      assert.equal(await claims(), 0, "it was collected");
      for (const store of stores) await store.close();
    }),
);

Deno.test("PostgresControlStore: concurrent instances claim each notification once", {
  ignore: isPostgresMissing,
}, () =>
  withSchema(async (server) => {
    const stores = await Promise.all([1, 2, 3, 4].map(() => openShared(server.url())));
    const wanted = Array.from({ length: 60 }, (_, n) => `a${n}`).sort();
    for (const id of wanted) {
      await stores[0]?.insertApproval(approvalOf({ id }), { notifyUntil: CREATED_AT });
    }
    const claim = { now: CREATED_AT + 1, until: CREATED_AT + 9, limit: 7 };
    const claimed: string[] = [];
    for (let round = 0; round < 20 && claimed.length < wanted.length; round++) {
      claimed.push(...(await Promise.all(stores.map((store) => store.claimNotifications(claim)))).flat());
    }
    assert.deepEqual(claimed.sort(), wanted);
    for (const store of stores) await store.close();
  }));

Deno.test("survivesRestart is true only for a store in a file", async () => {
  using folder = new ControlFolder();
  const store = folder.open();
  assert.deepEqual([openMemoryStore().survivesRestart, store.survivesRestart], [false, true]);
  await store.close();
});
