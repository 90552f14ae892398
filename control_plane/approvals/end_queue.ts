/** A queue in the order of ends: to take what has ended is as cheap with ten thousand in it as with ten. */
export class EndQueue<T> {
  readonly #endOf: (item: T) => number;
  #items: { readonly item: T; readonly end: number }[] = [];
  #taken = 0;

  /** @param endOf stays the same for an item */
  constructor(endOf: (item: T) => number) {
    this.#endOf = endOf;
  }

  /** Adds an item in its place, behind those of the same end. */
  add(item: T): void {
    const end = this.#endOf(item);
    let [from, to] = [this.#taken, this.#items.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#items[middle]?.end ?? Infinity) > end) to = middle;
      else from = middle + 1;
    }
    this.#items.splice(from, 0, { item, end });
  }

  /** Takes those that have ended before this time, the first of them first. */
  *takeEndedBefore(time: number): Generator<T> {
    for (let first = this.#items[this.#taken]; first !== undefined && first.end < time;) {
      this.#drop();
      yield first.item;
      first = this.#items[this.#taken];
    }
  }

  #drop(): void {
    this.#taken += 1;
    // Half of it is behind us: to move the other half costs as much as was taken since the last time.
    if (this.#taken * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#taken);
    this.#taken = 0;
  }
}
