import assert from "node:assert/strict";
import * as fc from "fast-check";
import { park, RegistryScene, TIMEOUT_MS } from "../testing/registry_scene.ts";
import { draftOf, EVER } from "../testing/sample_approval.ts";
import type { ClaimOutcome } from "./outcomes.ts";

const APPROVALS = 3;
const MAX_PENDING = APPROVALS + 2;
/** The first two are identical. One decision covers both if the approver was shown both. */
const COMMANDS = ["same", "same", "other"];

const target = fc.nat(APPROVALS - 1);
const rarely = fc.integer({ min: 0, max: 3 }).map((n) => n === 0);

/** Steps that can happen at any moment, any number of times and concurrently. */
const step = fc.oneof(
  fc.record({
    kind: fc.constant("decide" as const),
    target,
    approver: fc.constantFrom("alice", "bob", "broker-1"),
    approve: fc.integer({ min: 0, max: 3 }).map((n) => n > 0),
    isAuditFailing: rarely,
    isWhole: fc.boolean(),
  }),
  fc.record({
    kind: fc.constant("collect" as const),
    target,
    isSignerFailing: rarely,
    isAuditFailing: rarely,
    release: fc.constantFrom("after", "after", "before", "while"),
  }),
  fc.record({
    kind: fc.constant("tick" as const),
    ms: fc.constantFrom(1, 1000, TIMEOUT_MS / 2, TIMEOUT_MS, TIMEOUT_MS + 1, -1000, -3_600_000),
  }),
  fc.record({ kind: fc.constant("create" as const) }),
  fc.record({ kind: fc.constant("list" as const) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type StepOf<K extends Step["kind"]> = Extract<Step, { readonly kind: K }>;

/** The order of the states of an approval. An approval never returns to an earlier state. */
const RANK: Readonly<Record<ClaimOutcome["kind"], number>> = {
  pending: 0,
  claimed: 1,
  issuing: 1,
  consumed: 2,
  denied: 2,
  expired: 2,
  unknown: 3,
  not_owner: NaN,
  wrong_key: NaN,
};

/** The invariants of one approval. */
class Model {
  seen: ClaimOutcome["kind"] = "pending";
  decided: "approved" | "denied" | undefined;
  holders = 0;
  granted = 0;
  served = 0;

  observe(kind: ClaimOutcome["kind"]): void {
    const [before, now] = [RANK[this.seen], RANK[kind]];
    assert.ok(now >= before, `${kind} after ${this.seen}`);
    if (before === 2 && now === 2) assert.equal(kind, this.seen);
    if (now === 1) assert.equal(this.decided, "approved", `${kind} without an approval`);
    if (kind === "denied") assert.equal(this.decided, "denied");
    if (kind === "consumed") assert.ok(this.granted > 0, "consumed without a record");
    if (this.served > 0) assert.ok(kind === "consumed" || kind === "unknown", `${kind} after it was served`);
    this.seen = kind;
  }
}

/** Runs all steps concurrently. fast-check selects the order in which waits end. */
async function play(scheduler: fc.Scheduler, steps: readonly Step[], storeFailures: fc.Stream<boolean>) {
  const scene = new RegistryScene();
  let now = scene.clock.now();
  const clock = { now: () => now, sleep: () => Promise.reject(new Error("nobody waits here")) };
  const registry = await scene.open({ clock, maxPendingPerCaller: MAX_PENDING });
  const approvals = await Promise.all(COMMANDS.map((command) => park(registry, { command })));
  assert.equal(registry.list().length, APPROVALS - 1);
  const models = approvals.map(() => new Model());
  const pause = (what: string) => scheduler.schedule(Promise.resolve(), what);
  scene.store.before = async (change) => {
    const isFailing = storeFailures.next().value;
    await pause(change);
    if (isFailing) throw new Error("the disk is full");
  };

  async function decide({ target, isAuditFailing, isWhole, ...verdict }: StepOf<"decide">): Promise<void> {
    const isShown = (index: number) => index === target || isWhole && COMMANDS[index] === COMMANDS[target];
    const alike = models.filter((_model, index) => isShown(index));
    const shown = approvals.filter((_approval, index) => isShown(index)).map(({ id }) => id);
    const outcome = await registry.decide(
      approvals[target]!.id,
      { ...verdict, learnTtlSeconds: 0, shown },
      async ({ id }) => {
        const model = models[approvals.findIndex((approval) => approval.id === id)];
        assert.equal(model?.decided, undefined, "a second decision was audited");
        assert.notEqual(verdict.approver, "broker-1");
        await pause("audit");
        if (isAuditFailing) throw new Error("the log is full");
      },
    );
    if (verdict.approver === "broker-1") {
      assert.ok(["self", "unknown", "not_identical"].includes(outcome.kind));
    }
    if (outcome.kind !== "decided") return;
    assert.equal(isAuditFailing, false, "decided without a record");
    for (const model of alike) {
      assert.equal(model.decided, undefined, "decided twice");
      model.decided = verdict.approve ? "approved" : "denied";
    }
  }

  async function collect({ target, ...trouble }: StepOf<"collect">): Promise<void> {
    const model = models[target]!;
    const polled = registry.claim(approvals[target]!.id, { caller: "broker-1" });
    // The requester may collect the approval before the decision's caller receives the result.
    if (polled.kind === "claimed") model.decided ??= "approved";
    model.observe(polled.kind);
    if (polled.kind !== "claimed") return;
    const { claim } = polled;
    assert.equal(++model.holders, 1, "two polls collect at once");
    const release = () => {
      model.holders -= 1;
      claim.release();
    };
    await pause("signer");
    if (trouble.isSignerFailing) return release();
    if (trouble.release === "before") release();
    const consumed = claim.consume(async () => {
      await pause("audit");
      if (trouble.isAuditFailing) throw new Error("the log is full");
      model.granted += 1;
    });
    if (trouble.release === "while") claim.release();
    try {
      await consumed;
      assert.notEqual(trouble.release, "before", "consumed after its release");
      assert.equal(++model.served, 1, "served twice");
    } finally {
      if (trouble.release !== "before") release();
    }
  }

  async function perform(step: Step): Promise<void> {
    await pause(step.kind);
    switch (step.kind) {
      case "decide":
        return await decide(step);
      case "collect":
        return await collect(step);
      case "create":
        // A request that may join the first two at any moment of their decision.
        await registry.create(draftOf({ command: "same" }));
        return;
      case "tick":
        now += step.ms;
        return;
      case "list": {
        const pending = registry.list().filter((approval) =>
          registry.describe(approval).status === "pending"
        );
        assert.ok(pending.length <= MAX_PENDING && registry.pendingCount() <= MAX_PENDING);
        return;
      }
      default:
        return step satisfies never;
    }
  }

  const results = Promise.allSettled(steps.map(perform));
  await scheduler.waitFor(results);
  for (const result of await results) {
    if (result.status === "rejected" && result.reason instanceof assert.AssertionError) throw result.reason;
  }
  scene.store.before = () => Promise.resolve();

  // All steps have ended: memory and the count must match the store.
  const stored = await scene.store.loadApprovals(EVER);
  const known = stored.flatMap(({ id }) => registry.find(id) ?? []);
  for (const listed of registry.list()) assert.ok(known.includes(listed));
  for (const approval of known) assert.deepEqual(stored.find(({ id }) => id === approval.id), approval);
  const pending = known.filter((approval) => registry.describe(approval).status === "pending");
  assert.equal(registry.pendingCount(), pending.length);

  // After a restart, approvals that were served, denied or never approved cannot be collected.
  const restarted = await scene.open({ clock, maxPendingPerCaller: MAX_PENDING });
  for (const [index, { id }] of approvals.entries()) {
    const model = models[index]!;
    const { kind } = restarted.claim(id, { caller: "broker-1" });
    if (kind === "claimed") assert.deepEqual([model.decided, model.served], ["approved", 0]);
    if (model.served > 0) assert.ok(kind === "consumed" || kind === "unknown");
  }
}

Deno.test("in any order, approvals are decided and served once, with a record (A1, A6, A11)", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(step, { maxLength: 40, size: "max" }),
      fc.infiniteStream(rarely),
      play,
    ),
    { numRuns: 500 },
  );
});
