import assert from "node:assert/strict";
import type { Approval, ApprovalState } from "../../control_plane/approvals/approval.ts";
import { FakeClock } from "@gateway/shared/testing";
import { park, RegistryScene } from "../../control_plane/testing/registry_scene.ts";
import { openMemoryStore } from "../../control_plane/testing/failing_control_store.ts";
import type { Baseline } from "../../control_plane/guardrails/tracker.ts";
import type { ControlStore } from "../../control_plane/state/store.ts";
import { approvalOf, CREATED_AT, EVER } from "../../control_plane/testing/sample_approval.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { type Around, share } from "../stage/share.ts";
import { ControlFolder, openShared } from "./control_store_fixture.ts";

type Check = (store: ControlStore) => Promise<void>;

const APPROVED: ApprovalState = { kind: "approved", by: "alice", at: CREATED_AT + 1, learnTtlSeconds: 7200 };
const STATES: readonly ApprovalState[] = [
  { kind: "pending" },
  APPROVED,
  { ...APPROVED, kind: "consumed" },
  { ...APPROVED, learnTtlSeconds: 0 },
  { kind: "denied", by: "bob", at: CREATED_AT + 999 },
  { ...APPROVED, comment: "ticket 42" },
  { kind: "denied", by: "bob", at: CREATED_AT + 999, comment: "not on a Friday" },
];

const CONTRACT: Readonly<Record<string, Check>> = {
  async "an empty store has nothing"(store) {
    assert.deepEqual([await store.loadApprovals(EVER), await store.loadBaselines()], [[], []]);
    await store.deleteApprovals([]);
    await store.deleteApprovals(["none"]);
    await store.deleteBaselines(["none"]);
  },

  async "an approval comes back as it was given, to the millisecond"(store) {
    const approval = approvalOf({
      caller: "broker é 1",
      endUser: "carol@example.com",
      command: 'echo "a\n\u001b[31m\u202e\u{1F600}\ufeff" \ufffd\' --',
      sudo: true,
      sudoUser: "postgres",
      rule: "require_approval:^echo",
      anomalies: ["new-host:a\0b", "new-command:\ud800", ""],
      createdAt: CREATED_AT + 123,
      timeoutMs: 60_000,
      target: { user: "deploy", addr: "10.0.0.1:22", lifeSeconds: 120 },
      k8sDiff: { kind: "changed", changes: [{ path: "spec.replicas", before: "2", after: "3" }], omitted: 1 },
      lead: "ffeeddccbbaa99887766554433221100",
      request: {
        ...approvalOf().request,
        end_user_groups: ["ops", ""],
        ttl_seconds: 60,
        learn_approver: "x\0\ud800",
      },
    });
    await store.insertApproval(approval);
    assert.deepEqual(await store.loadApprovals(EVER), [approval]);
  },

  async "no groups and absent groups are not the same"(store) {
    const { request } = approvalOf();
    await store.insertApproval(approvalOf({ id: "a", request: { ...request, end_user_groups: [] } }));
    await store.insertApproval(approvalOf({ id: "b", request: { ...request, end_user_groups: null } }));
    const loaded = await store.loadApprovals(EVER);
    assert.deepEqual(loaded.map((approval) => approval.request.end_user_groups), [[], null]);
  },

  async "every state is kept, when it is new and when it changes"(store) {
    for (const [index, state] of STATES.entries()) {
      await store.insertApproval(approvalOf({ id: `new-${index}`, state }));
      await store.insertApproval(approvalOf({ id: `changed-${index}` }));
      // Only what was approved is collected.
      if (state.kind === "consumed") {
        await store.updateApproval(
          approvalOf({ id: `changed-${index}`, state: { ...state, kind: "approved" } }),
        );
      }
      await store.updateApproval(approvalOf({ id: `changed-${index}`, state }));
    }
    const loaded = new Map((await store.loadApprovals(EVER)).map((approval) => [approval.id, approval]));
    for (const [index, state] of STATES.entries()) {
      assert.deepEqual(loaded.get(`new-${index}`)?.state, state);
      assert.deepEqual(loaded.get(`changed-${index}`)?.state, state);
    }
  },

  async "a change of state changes nothing else, and no other approval"(store) {
    await store.insertApproval(approvalOf({ id: "a" }));
    await store.insertApproval(approvalOf({ id: "b" }));
    await store.updateApproval(
      approvalOf({ id: "a", host: "db01", command: "rm", sudo: true, state: APPROVED }),
    );
    assert.deepEqual(await store.loadApprovals(EVER), [
      approvalOf({ id: "a", state: APPROVED }),
      approvalOf({ id: "b" }),
    ]);
  },

  async "states change together: all, or where one is not there none"(store) {
    for (const id of ["a", "b"]) await store.insertApproval(approvalOf({ id }));
    const [a, b, c] = ["a", "b", "c"].map((id) => approvalOf({ id, state: APPROVED }));
    assert(a && b && c);
    await assert.rejects(store.updateApproval(a, b, c), { code: "internal" });
    const kinds = async () => (await store.loadApprovals(EVER)).map(({ state }) => state.kind);
    assert.deepEqual(await kinds(), ["pending", "pending"]);
    await store.updateApproval(a, b);
    assert.deepEqual(await kinds(), ["approved", "approved"]);
  },

  async "a change of what is not there is refused"(store) {
    await assert.rejects(store.updateApproval(approvalOf({ state: APPROVED })), { code: "internal" });
    assert.deepEqual(await store.loadApprovals(EVER), []);
  },

  async "a second approval of an id is refused, and the first one stays"(store) {
    await store.insertApproval(approvalOf());
    await assert.rejects(store.insertApproval(approvalOf({ command: "rm" })), { code: "internal" });
    assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
  },

  async "a notification is claimed when the time of who has it is over, by one, until it is ended"(store) {
    const claim = (now: number, until = now + 10, limit = 9) =>
      store.claimNotifications({ now: CREATED_AT + now, until: CREATED_AT + until, limit });
    for (const [id, ms] of [["b", 20], ["a", 10], ["c", 30]] as const) {
      await store.insertApproval(approvalOf({ id }), { notifyUntil: CREATED_AT + ms });
    }
    await store.insertApproval(approvalOf({ id: "quiet" }));
    await store.insertApproval(approvalOf({ id: "decided" }), { notifyUntil: CREATED_AT });
    await store.updateApproval(approvalOf({ id: "decided", state: APPROVED }));
    assert.deepEqual(await claim(10), [], "its last millisecond is its own");
    assert.deepEqual((await claim(25)).toSorted(), ["a", "b"]);
    assert.deepEqual(await claim(25), []);
    await store.endNotification("a");
    assert.deepEqual(await claim(99, 100, 1), ["c"], "the one that has waited longest");
    assert.deepEqual((await Promise.all([claim(101), claim(101)])).flat().toSorted(), ["b", "c"]);
    await store.deleteApprovals(["b"]);
    await store.endNotification("none");
    assert.deepEqual(ids(await store.loadApprovals(EVER)).includes("c"), true);
  },

  async "approvals come back the oldest first, those of one millisecond in their order"(store) {
    for (const [id, ms] of [["d", 5], ["c", 0], ["a", 5], ["b", 2]] as const) {
      await store.insertApproval(approvalOf({ id, createdAt: CREATED_AT + ms }));
    }
    assert.deepEqual(ids(await store.loadApprovals(EVER)), ["c", "b", "d", "a"]);
  },

  async "loading removes what is as old, and older (A7)"(store) {
    for (const ms of [-1, 0, 1]) {
      await store.insertApproval(approvalOf({ id: `${ms}`, createdAt: CREATED_AT + ms }));
    }
    assert.deepEqual(ids(await store.loadApprovals({ now: CREATED_AT + 1, timeoutMs: 0 })), ["1"]);
    assert.deepEqual(ids(await store.loadApprovals(EVER)), ["1"]);
  },

  async "loading goes by the timeout of each, where it has one"(store) {
    for (const [id, timeoutMs] of [["long", 60_000], ["short", 1], ["none", undefined]] as const) {
      await store.insertApproval(approvalOf({ id, ...(timeoutMs !== undefined && { timeoutMs }) }));
    }
    const loaded = async (ms: number, timeoutMs: number) =>
      ids(await store.loadApprovals({ now: CREATED_AT + ms, timeoutMs })).sort();
    assert.deepEqual(await loaded(2, 1), ["long", "none", "short"]);
    assert.deepEqual(await loaded(3, 10), ["long", "none"]);
    assert.deepEqual(await loaded(120_000, 10), ["long"]);
    assert.deepEqual(await loaded(120_001, 1_000_000), []);
  },

  async "what is deleted is gone, and nothing else (A7)"(store) {
    for (const id of ["a", "b", "c", "d"]) await store.insertApproval(approvalOf({ id }));
    await store.deleteApprovals(["b", "none", "d"]);
    assert.deepEqual(ids(await store.loadApprovals(EVER)), ["a", "c"]);
    await assert.rejects(store.updateApproval(approvalOf({ id: "b", state: APPROVED })), {
      code: "internal",
    });
  },

  async "a text that would come back shorter is refused"(store) {
    const cut = ["a\0", "\0", "\ud800"];
    for (const text of cut) {
      for (const field of ["id", "caller", "endUser", "host", "command", "sudoUser", "rule"]) {
        await assert.rejects(store.insertApproval({ ...approvalOf(), [field]: text }), { code: "internal" });
      }
    }
    await store.insertApproval(approvalOf());
    for (const by of cut) {
      const state = { ...APPROVED, by };
      await assert.rejects(store.updateApproval(approvalOf({ state })), { code: "internal" });
      await assert.rejects(store.putBaseline(baselineOf({ subject: by })), { code: "internal" });
    }
    assert.deepEqual([await store.loadApprovals(EVER), await store.loadBaselines()], [
      [approvalOf()],
      [],
    ]);
  },

  async "a command of 60 KiB is kept"(store) {
    const command = "é".repeat(30 * 1024);
    const approval = approvalOf({ command, request: { ...approvalOf().request, command } });
    await store.insertApproval(approval);
    assert.deepEqual(await store.loadApprovals(EVER), [approval]);
  },

  async "a baseline comes back as it was put, the last one of its subject"(store) {
    await store.putBaseline(baselineOf({ subject: '["broker-1"]' }));
    await store.putBaseline(baselineOf({ subject: '["broker-1","carol"]', hosts: [] }));
    const last = baselineOf({
      subject: '["broker-1"]',
      lastSeen: 7,
      hosts: ["a", "b\0", "\ud800"],
      commands: [],
    });
    await store.putBaseline(last);
    const loaded = [...await store.loadBaselines()].sort((a, b) => a.subject.length - b.subject.length);
    assert.deepEqual(loaded, [last, baselineOf({ subject: '["broker-1","carol"]', hosts: [] })]);
  },

  async "baselines are deleted by their subjects"(store) {
    for (const subject of ["a", "b", "c"]) await store.putBaseline(baselineOf({ subject }));
    await store.deleteBaselines(["a", "none", "c"]);
    assert.deepEqual(await store.loadBaselines(), [baselineOf({ subject: "b" })]);
  },

  async "texts are data and never part of a statement"(store) {
    const text = `'; DELETE FROM approvals; --":id`;
    await store.insertApproval(approvalOf({ id: text, caller: text, command: text }));
    await store.putBaseline(baselineOf({ subject: text, hosts: [text] }));
    await store.deleteApprovals([`${text}2`, '"]']);
    assert.deepEqual(ids(await store.loadApprovals(EVER)), [text]);
    assert.deepEqual(await store.loadBaselines(), [baselineOf({ subject: text, hosts: [text] })]);
  },

  async "a closed store fails instead of forgetting"(store) {
    await store.close();
    await store.close();
    const uses = [
      () => store.loadApprovals(EVER),
      () => store.insertApproval(approvalOf()),
      () => store.deleteApprovals(["a"]),
      () => store.putBaseline(baselineOf()),
    ];
    for (const use of uses) await assert.rejects(use, { code: "internal" });
  },
};

function baselineOf(fields: Partial<Baseline> = {}): Baseline {
  return { subject: "a", lastSeen: CREATED_AT + 5, hosts: ["web01"], commands: ["uptime", "ls"], ...fields };
}

const ids = (approvals: readonly Approval[]) => approvals.map(({ id }) => id);

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

/** Runs a test on the shared server, in which there is nothing of the tests before. */
const withSchema: Around<PostgresServer> = (test) =>
  withServer(async (server) => {
    await server.sql("DROP SCHEMA IF EXISTS control_plane CASCADE");
    await test(server);
  });

Deno.test({
  name: "PostgresControlStore: does what the others do",
  ignore: isPostgresMissing,
  fn: (test) =>
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
});

Deno.test({
  name: "PostgresControlStore: a control plane that waits for less long removes nothing of others",
  ignore: isPostgresMissing,
  fn: () =>
    withSchema(async (server) => {
      const [patient, hasty] = [await openShared(server.url()), await openShared(server.url())];
      const clock = new FakeClock(Date.now());
      const registry = (store: ControlStore, timeoutSeconds: number) =>
        new RegistryScene().open({ store, clock, timeoutSeconds });
      const [slow, quick] = [await registry(patient, 3_600), await registry(hasty, 1)];
      const parked = await park(slow);
      await quick.takeOver((timing) => hasty.loadApprovals(timing));
      assert.equal(quick.pendingCount(), 1);
      // As elsewhere, its lifetime is the one given when it was parked.
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
    }),
});

Deno.test({
  name: "PostgresControlStore: no instance forgets what another has learned of a subject",
  ignore: isPostgresMissing,
  fn: () =>
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
      // It was not asked for that long; others were.
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
    }),
});

Deno.test({
  name: "PostgresControlStore: of two that decide or collect, one does",
  ignore: isPostgresMissing,
  fn: () =>
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
});

Deno.test({
  name:
    "PostgresControlStore: of those that collect at the same time one may sign, until it gives up or 30 s pass",
  ignore: isPostgresMissing,
  fn: () =>
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
});

Deno.test({
  name: "PostgresControlStore: each notification is claimed by one of those that ask at the same time",
  ignore: isPostgresMissing,
  fn: () =>
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
    }),
});

Deno.test("only a store in a file outlives the process", async () => {
  using folder = new ControlFolder();
  const store = folder.open();
  assert.deepEqual([openMemoryStore().survivesRestart, store.survivesRestart], [false, true]);
  await store.close();
});
