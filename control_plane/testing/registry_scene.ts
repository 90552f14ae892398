import assert from "node:assert/strict";
import { systemRandom } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import type { Approval, ApprovalDraft, Verdict } from "../approvals/approval.ts";
import { ApprovalRegistry } from "../approvals/registry.ts";
import type { Claim, DecideOutcome, RegistryOptions } from "../approvals/outcomes.ts";
import { FailingControlStore } from "./failing_control_store.ts";
import { draftOf } from "./sample_approval.ts";

/** The timeout of approvals in a scene. */
export const TIMEOUT_MS = 120_000;

/** Store, clock and audit log for registries, controlled by the test. */
export class RegistryScene {
  readonly clock: FakeClock = new FakeClock();
  readonly store: FailingControlStore = new FailingControlStore();
  readonly warnings: string[] = [];
  /** The audited decisions and collections in order, for example `approve alice` and `granted`. */
  readonly audited: string[] = [];
  storeErrors = 0;

  /** Opens a registry over the current content of the store, for example after a restart. */
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

  /** Decides, by default as the approver `alice` who was shown all identical requests. */
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

/** A scene with one pending request. */
export async function openParked() {
  const { scene, registry } = await openRegistry();
  return { scene, registry, approval: await park(registry) };
}

/** Parks a request. Fails if that is impossible. */
export async function park(
  registry: ApprovalRegistry,
  fields: Partial<ApprovalDraft> = {},
): Promise<Approval> {
  const created = await registry.create(draftOf(fields));
  assert.ok(created.kind === "parked");
  return created.approval;
}

/** Parks a request that is identical to no other. */
export function parkApart(registry: ApprovalRegistry): Promise<Approval> {
  return park(registry, { command: `systemctl restart ${crypto.randomUUID()}` });
}

/** The result of a poll by the requester. */
export function poll(registry: ApprovalRegistry, { id, caller }: Approval): string {
  const claimed = registry.claim(id, { caller });
  if (claimed.kind === "claimed") claimed.claim.release();
  return claimed.kind;
}

/** Claims the right to collect an approval. Fails if it is already claimed. */
export function take(registry: ApprovalRegistry, { id, caller }: Approval): Claim {
  const claimed = registry.claim(id, { caller });
  assert.equal(claimed.kind, "claimed");
  return claimed.claim;
}

/** A promise and the function that resolves it. */
export function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
