import { AppError } from "@gateway/shared/errors";
import type { Approval, Timing } from "../approvals/approval.ts";
import { openSqliteControlStore } from "../state/sqlite.ts";
import type { RetentionOptions } from "../approvals/outcomes.ts";
import type { Baseline } from "../guardrails/tracker.ts";
import type { NotificationClaim } from "../notify/outbox.ts";
import type { ControlStore } from "../state/store.ts";

/** A change of approvals that a test can make fail or wait. */
export type ApprovalChange =
  | "insertApproval"
  | "updateApproval"
  | "deleteApprovals"
  | "claimNotifications"
  | "endNotification";

/** A store without a file. */
export const openMemoryStore = (): ControlStore => openSqliteControlStore({ path: "", warn() {} });

/** A store in memory whose disk can fail or be slow. */
export class FailingControlStore implements ControlStore {
  readonly survivesRestart = true;
  /** The requested changes, in order. */
  readonly calls: ApprovalChange[] = [];
  /** Changes that fail without an effect. */
  readonly failing = new Set<ApprovalChange>();
  /** Changes that wait for the promise first. */
  readonly held = new Map<ApprovalChange, Promise<unknown>>();
  /** Runs before every change. If it rejects, the change fails. */
  before: (change: ApprovalChange) => Promise<void> = () => Promise.resolve();
  readonly #store: ControlStore;

  constructor(store: ControlStore = openMemoryStore()) {
    this.#store = store;
  }

  loadApprovals(timing: Timing): Promise<readonly Approval[]> {
    return this.#store.loadApprovals(timing);
  }

  insertApproval(approval: Approval, keeping?: RetentionOptions): Promise<void> {
    return this.#run("insertApproval", () => this.#store.insertApproval(approval, keeping));
  }

  updateApproval(...approvals: readonly Approval[]): Promise<void> {
    return this.#run("updateApproval", () => this.#store.updateApproval(...approvals));
  }

  deleteApprovals(ids: readonly string[]): Promise<void> {
    return this.#run("deleteApprovals", () => this.#store.deleteApprovals(ids));
  }

  claimNotifications(claim: NotificationClaim): Promise<readonly string[]> {
    return this.#run("claimNotifications", () => this.#store.claimNotifications(claim));
  }

  endNotification(id: string): Promise<void> {
    return this.#run("endNotification", () => this.#store.endNotification(id));
  }

  loadBaselines(): Promise<readonly Baseline[]> {
    return this.#store.loadBaselines();
  }

  putBaseline(baseline: Baseline): Promise<void> {
    return this.#store.putBaseline(baseline);
  }

  deleteBaselines(subjects: readonly string[]): Promise<void> {
    return this.#store.deleteBaselines(subjects);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #run<T>(change: ApprovalChange, action: () => Promise<T>): Promise<T> {
    this.calls.push(change);
    await this.held.get(change);
    await this.before(change);
    if (this.failing.has(change)) throw new AppError("internal", "The state database could not be used");
    return await action();
  }
}
