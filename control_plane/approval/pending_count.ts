/** How many approvals wait for a decision, in all and of each caller. */
export class PendingCount {
  readonly #byCaller = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(caller: string): number {
    return this.#byCaller.get(caller) ?? 0;
  }

  add(caller: string): void {
    this.#total += 1;
    this.#byCaller.set(caller, this.of(caller) + 1);
  }

  remove(caller: string): void {
    this.#total -= 1;
    const left = this.of(caller) - 1;
    // Not kept at 0: the names of callers that come and go would stay.
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
  }
}
