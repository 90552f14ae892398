/**
 * Which certificates and tokens the logs of a deployment tell of: each serial stands in the log of the one signer that
 * issued it. 8 bytes for each, so that the logs of years fit.
 *
 * @module
 */

/** Unescaped quotes are in no JSON string: what looks so is a member of the record itself. */
const SERIAL = /,"serial":(\d{1,20}),/;
const ISSUED = /,"outcome":"issued",/;
const LATIN1 = new TextDecoder("latin1");

/** The serial that a line of a log is about, if it is about one, and whether it says that it was issued. */
export function readSerial(
  line: Uint8Array,
): { readonly serial: bigint; readonly isIssued: boolean } | undefined {
  const text = LATIN1.decode(line);
  const serial = BigInt(SERIAL.exec(text)?.[1] ?? 0);
  if (serial === 0n || BigInt.asUintN(64, serial) !== serial) return undefined;
  return { serial, isIssued: ISSUED.test(text) };
}

/** Serials, as often as they were added. */
export class SerialList {
  #items = new BigUint64Array(1024);
  #length = 0;
  #isSorted = true;

  add(serial: bigint): void {
    if (this.#length === this.#items.length) {
      const larger = new BigUint64Array(this.#length * 2);
      larger.set(this.#items);
      this.#items = larger;
    }
    this.#items[this.#length++] = serial;
    this.#isSorted = false;
  }

  get sorted(): BigUint64Array {
    const items = this.#items.subarray(0, this.#length);
    if (!this.#isSorted) items.sort();
    this.#isSorted = true;
    return items;
  }

  has(serial: bigint): boolean {
    const items = this.sorted;
    let [low, high] = [0, items.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((items[middle] ?? 0n) < serial) low = middle + 1;
      else high = middle;
    }
    return items[low] === serial;
  }
}

/** The serials of the log of an instance. */
export interface LogSerials {
  readonly instance: string;
  readonly serials: SerialList;
}

/** A serial that does not stand where it should. */
export interface SerialProblem {
  readonly kind: "twice" | "nowhere";
  readonly serial: bigint;
  readonly instances: readonly string[];
}

/** The serials that were issued more than once. */
export function* findTwice(issued: readonly LogSerials[]): Generator<SerialProblem> {
  const all = new BigUint64Array(issued.reduce((sum, { serials }) => sum + serials.sorted.length, 0));
  let end = 0;
  for (const { serials } of issued) {
    all.set(serials.sorted, end);
    end += serials.sorted.length;
  }
  all.sort();
  let last: bigint | undefined;
  let told: bigint | undefined;
  for (const serial of all) {
    if (serial === last && serial !== told) {
      const instances = issued.filter(({ serials }) => serials.has(serial)).map(({ instance }) => instance);
      yield { kind: "twice", serial, instances };
      told = serial;
    }
    last = serial;
  }
}

/** The serials that others have been given, and no signer has issued. */
export function* findNowhere(
  used: readonly LogSerials[],
  issued: readonly LogSerials[],
): Generator<SerialProblem> {
  for (const { instance, serials } of used) {
    let last: bigint | undefined;
    for (const serial of serials.sorted) {
      if (serial !== last && issued.every((log) => !log.serials.has(serial))) {
        yield { kind: "nowhere", serial, instances: [instance] };
      }
      last = serial;
    }
  }
}
