/** What an {@linkcode AgeQueue} has to know of its items. */
export interface Born {
  readonly bornAt: number;
}

/** A queue in the order of age: to take the oldest is as cheap with ten thousand in it as with ten. */
export class AgeQueue<T extends Born> {
  #items: T[] = [];
  #taken = 0;

  /** Adds an item in its place, which is nearly always the last. */
  add(item: T): void {
    let place = this.#items.length;
    while (place > this.#taken && (this.#items[place - 1]?.bornAt ?? -Infinity) > item.bornAt) place -= 1;
    this.#items.splice(place, 0, item);
  }

  /** Takes those that were born before this time, the oldest first. */
  *takeBornBefore(time: number): Generator<T> {
    for (let oldest = this.#items[this.#taken]; oldest !== undefined && oldest.bornAt < time;) {
      this.#drop();
      yield oldest;
      oldest = this.#items[this.#taken];
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
