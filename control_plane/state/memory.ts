import { AppError } from "@gateway/shared/errors";
import type { Approval } from "../approvals/approval.ts";
import { isPurgeable, type Timing } from "../approvals/transitions.ts";
import { checkApproval, checkBaseline, checkState } from "./rows.ts";
import type { Keeping } from "../approvals/outcomes.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim } from "../notify/outbox.ts";
import type { ControlStore } from "./store.ts";

/** A {@linkcode ControlStore} in memory: what the control plane uses without `state_db`. */
export class MemoryControlStore implements ControlStore {
  readonly survivesRestart = false;
  readonly #approvals = new Map<string, Approval>();
  /** Until when who inserted or claimed it tells approvers of an approval, by its id. */
  readonly #notifyUntil = new Map<string, number>();
  readonly #baselines = new Map<string, Baseline>();
  #isClosed = false;

  loadApprovals(timing: Timing): Promise<readonly Approval[]> {
    return this.#run(() => {
      const all = [...this.#approvals.values()];
      for (const approval of all) {
        const timeoutMs = approval.timeoutMs ?? timing.timeoutMs;
        if (isPurgeable(approval, { now: timing.now, timeoutMs })) this.#delete(approval.id);
      }
      return [...this.#approvals.values()].sort((a, b) => a.createdAt - b.createdAt);
    });
  }

  insertApproval(approval: Approval, { notifyUntil }: Keeping = {}): Promise<void> {
    return this.#run(() => {
      checkApproval(approval);
      checkState(approval.state);
      if (this.#approvals.has(approval.id)) {
        throw new AppError("internal", "There is already an approval with this id");
      }
      this.#approvals.set(approval.id, approval);
      if (notifyUntil !== undefined) this.#notifyUntil.set(approval.id, notifyUntil);
    });
  }

  updateApproval(...approvals: readonly Approval[]): Promise<void> {
    return this.#run(() => {
      const changed = approvals.map(({ id, state }): Approval => {
        checkState(state);
        const approval = this.#approvals.get(id);
        if (approval === undefined) throw new AppError("internal", "There is no approval with this id");
        return { ...approval, state };
      });
      for (const approval of changed) this.#approvals.set(approval.id, approval);
    });
  }

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#run(() => {
      for (const id of ids) this.#delete(id);
    });
  }

  claimNotifications({ now, until, limit }: NotificationClaim): Promise<readonly string[]> {
    return this.#run(() => {
      const due = [...this.#notifyUntil].filter(([id, claimed]) =>
        claimed < now && this.#approvals.get(id)?.state.kind === "pending"
      );
      const ids = due.sort(([, a], [, b]) => a - b).slice(0, limit).map(([id]) => id);
      for (const id of ids) this.#notifyUntil.set(id, until);
      return ids;
    });
  }

  endNotification(id: string): Promise<void> {
    return this.#run(() => void this.#notifyUntil.delete(id));
  }

  loadBaselines(): Promise<readonly Baseline[]> {
    return this.#run(() => [...this.#baselines.values()]);
  }

  putBaseline(baseline: Baseline): Promise<void> {
    return this.#run(() => {
      checkBaseline(baseline);
      this.#baselines.set(baseline.subject, baseline);
    });
  }

  deleteBaselines(subjects: readonly string[]): Promise<void> {
    return this.#run(() => {
      for (const subject of subjects) this.#baselines.delete(subject);
    });
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return Promise.resolve();
  }

  #delete(id: string): void {
    this.#approvals.delete(id);
    this.#notifyUntil.delete(id);
  }

  // deno-lint-ignore require-await -- what the action throws becomes a rejection
  async #run<T>(action: () => T): Promise<T> {
    if (this.#isClosed) throw new AppError("internal", "The state store is closed");
    return action();
  }
}
