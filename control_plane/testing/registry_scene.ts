import assert from "node:assert/strict";
import { systemRandom } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import type { Approval, ApprovalDraft, Verdict } from "../approvals/approval.ts";
import { ApprovalRegistry } from "../approvals/registry.ts";
import type { Claim, DecideOutcome, RegistryOptions } from "../approvals/outcomes.ts";
import { FailingControlStore } from "./failing_control_store.ts";
import { draftOf } from "./sample_approval.ts";

/** How long the approvals of a scene live. */
export const TIMEOUT_MS = 120_000;

/** The surroundings of registries, under the control of a test. */
export class RegistryScene {
  readonly clock: FakeClock = new FakeClock();
  readonly store: FailingControlStore = new FailingControlStore();
  readonly warnings: string[] = [];
  /** The decisions and collections that were audited, such as `approve alice` and `granted`, in their order. */
  readonly audited: string[] = [];
  storeErrors = 0;

  /** A registry over what the store holds: the first one, or that after a restart. */
  open(options: Partial<RegistryOptions> = {}): Promise<ApprovalRegistry> {
    const note = (message: string) => void this.warnings.push(message);
    return ApprovalRegistry.open({
      store: this.store,
      clock: this.clock,
      random: systemRandom,
      timeoutSeconds: TIMEOUT_MS / 1000,
      maxPendingPerCaller: 100,
      logger: { info: note, warn: note, error: note },
      onStoreError: () => this.storeErrors++,
      ...options,
    });
  }

  /** Decides, by default as `alice` who approves and was shown all identical requests. */
  decide(
    registry: ApprovalRegistry,
    approval: Approval,
    verdict: Partial<Verdict> = {},
  ): Promise<DecideOutcome> {
    const { approver = "alice", approve = true, learnTtlSeconds = 0 } = verdict;
    const { shown = registry.describe(approval).joined } = verdict;
    return registry.decide(approval.id, { approver, approve, learnTtlSeconds, shown }, () => {
      this.audited.push(`${approve ? "approve" : "deny"} ${approver}`);
      return Promise.resolve();
    });
  }

  readonly granted = (): Promise<void> => {
    this.audited.push("granted");
    return Promise.resolve();
  };
}

/** A scene with its first registry. */
export async function openRegistry(options: Partial<RegistryOptions> = {}) {
  const scene = new RegistryScene();
  return { scene, registry: await scene.open(options) };
}

/** A scene with one request that waits. */
export async function openParked() {
  const { scene, registry } = await openRegistry();
  return { scene, registry, approval: await park(registry) };
}

/** Parks a request, which has to be possible. */
export async function park(
  registry: ApprovalRegistry,
  fields: Partial<ApprovalDraft> = {},
): Promise<Approval> {
  const created = await registry.create(draftOf(fields));
  assert.ok(created.kind === "parked");
  return created.approval;
}

/** Parks a request that no other is identical to. */
export function parkApart(registry: ApprovalRegistry): Promise<Approval> {
  return park(registry, { command: `systemctl restart ${crypto.randomUUID()}` });
}

/** The result of a poll by the requester. */
export function poll(registry: ApprovalRegistry, { id, caller }: Approval): string {
  const claimed = registry.claim(id, { caller });
  if (claimed.kind === "claimed") claimed.claim.release();
  return claimed.kind;
}

/** Takes the right to collect, which has to be free. */
export function take(registry: ApprovalRegistry, { id, caller }: Approval): Claim {
  const claimed = registry.claim(id, { caller });
  assert.equal(claimed.kind, "claimed");
  return claimed.claim;
}

/** A promise and what ends it. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
