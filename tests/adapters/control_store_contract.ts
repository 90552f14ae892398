import assert from "node:assert/strict";
import { subjectOf } from "@gateway/shared/proofs";
import type { Approval, ApprovalState } from "../../control_plane/approvals/approval.ts";
import type { Baseline } from "../../control_plane/guardrails/tracker.ts";
import type { ControlStore } from "../../control_plane/state/store.ts";
import { approvalOf, CREATED_AT, EVER } from "../../control_plane/testing/sample_approval.ts";

type Check = (store: ControlStore) => Promise<void>;

export const APPROVED = {
  kind: "approved",
  by: "alice",
  at: CREATED_AT + 1,
  learnTtlSeconds: 7200,
} as const satisfies ApprovalState;
const PROOF = { kind: "ssh", document: '{"v":1}', signature: "AAAA" } as const;
const STATES: readonly ApprovalState[] = [
  { kind: "pending" },
  APPROVED,
  { ...APPROVED, kind: "consumed" },
  { ...APPROVED, learnTtlSeconds: 0 },
  { kind: "denied", by: "bob", at: CREATED_AT + 999 },
  { ...APPROVED, comment: "ticket 42" },
  { kind: "pending", proofs: [PROOF] },
  { ...APPROVED, proofs: [PROOF] },
  { kind: "denied", by: "bob", at: CREATED_AT + 999, comment: "not on a Friday" },
];

export const CONTRACT: Readonly<Record<string, Check>> = {
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
      signed: {
        ...{ required: 2, installation: "lab-1", approved_by: [] },
        subject: subjectOf(approvalOf().request, "broker-1"),
      },
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
      // Only approved requests can be collected.
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

  async "of two approvers who sign at the same time, the second has to sign again"(store) {
    await store.insertApproval(approvalOf());
    const signed = (signature: string, kind: "pending" | "approved") =>
      approvalOf({ state: { ...APPROVED, kind, proofs: [{ ...PROOF, signature }] } as ApprovalState });
    await store.updateApproval(signed("AAAA", "pending"));
    await assert.rejects(store.updateApproval(signed("BBBB", "approved")), { code: "conflict" });
    const [stored] = await store.loadApprovals(EVER);
    assert.deepEqual(stored?.state, { kind: "pending", proofs: [PROOF] });
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

export function baselineOf(fields: Partial<Baseline> = {}): Baseline {
  return { subject: "a", lastSeen: CREATED_AT + 5, hosts: ["web01"], commands: ["uptime", "ls"], ...fields };
}

export const ids = (approvals: readonly Approval[]) => approvals.map(({ id }) => id);
