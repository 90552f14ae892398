import type { BaselineStore } from "../guardrails/guardrails.ts";
import type { Baseline } from "../guardrails/tracker.ts";

/** Baselines in memory, with optional failures and delayed answers. */
export class FakeBaselineStore implements BaselineStore {
  readonly rows = new Map<string, Baseline>();
  /** Every put and delete in order, as `put <subject>` and `delete <subject> …`. */
  readonly calls: string[] = [];
  /** The error of each change, or undefined while the store works. */
  failure: Error | undefined;
  gate: Promise<void> = Promise.resolve();

  constructor(rows: readonly Baseline[] = []) {
    for (const row of rows) this.rows.set(row.subject, row);
  }

  loadBaselines(): Promise<readonly Baseline[]> {
    return this.failure === undefined
      ? Promise.resolve([...this.rows.values()])
      : Promise.reject(this.failure);
  }

  putBaseline(baseline: Baseline): Promise<void> {
    return this.#change(`put ${baseline.subject}`, () => this.rows.set(baseline.subject, baseline));
  }

  deleteBaselines(subjects: readonly string[]): Promise<void> {
    return this.#change(`delete ${subjects.join(" ")}`, () => {
      for (const subject of subjects) this.rows.delete(subject);
    });
  }

  async #change(call: string, apply: () => void): Promise<void> {
    this.calls.push(call);
    const { failure } = this;
    await this.gate;
    if (failure !== undefined) throw failure;
    apply();
  }
}
