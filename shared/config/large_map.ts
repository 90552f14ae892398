/**
 * A map of a config with very many entries, checked one by one; of what is written as in the text before, nothing has to
 * be read or checked again.
 *
 * @module
 */
import { type ConfigObject, createConfigObject } from "./config_object.ts";
import type { EntryTaker, TextRange } from "./jsonc.ts";

/** A map that was checked, and where its entries stand in the text. */
export interface WrittenMap {
  readonly text: string;
  readonly ranges: ReadonlyMap<string, TextRange>;
  readonly entries: ConfigObject;
}

/** What a {@linkcode LargeMap} works with. */
export interface LargeMapOptions {
  /** What is being read. */
  readonly text: string;
  /** The entry with its defaults, in an object of its own; nothing in it after problems, or where it is a comment. */
  readonly check: (name: string, entry: unknown) => ConfigObject;
  /** The map of the text before; it was checked by the same rules, and had no problems. */
  readonly before?: WrittenMap | undefined;
}

/** Collects the entries. */
export class LargeMap implements EntryTaker {
  readonly #options: LargeMapOptions;
  readonly #ranges = new Map<string, TextRange>();
  readonly #entries = createConfigObject();
  #isThere = false;

  constructor(options: LargeMapOptions) {
    this.#options = options;
  }

  take(name: string, entry: unknown, range?: TextRange): void {
    this.#isThere = true;
    const checked = this.#options.check(name, entry);
    if (!Object.hasOwn(checked, name)) return;
    this.#entries[name] = checked[name];
    if (range !== undefined) this.#ranges.set(name, range);
  }

  takeKnown(name: string, start: number): number | undefined {
    const { text, before } = this.#options;
    const range = before?.ranges.get(name);
    if (before === undefined || range === undefined) return undefined;
    // From its brace to the one that closes it: what begins so ends there, whatever follows.
    const known = before.text.slice(range.start, range.end);
    if (!text.startsWith(known, start)) return undefined;
    this.#isThere = true;
    this.#entries[name] = before.entries[name];
    const end = start + known.length;
    this.#ranges.set(name, { start, end });
    return end;
  }

  /** The map as it is by now; `undefined` where no entry has come. */
  get written(): WrittenMap | undefined {
    if (!this.#isThere) return undefined;
    return { text: this.#options.text, ranges: this.#ranges, entries: this.#entries };
  }
}
