/**
 * Who fetches the revocation list, and which version it has installed: what it asks for news after.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { KrlReaders } from "./readers.ts";
 *
 * const readers = new KrlReaders();
 * readers.saw("web01.krl", { version: 7, at: 0 });
 * assert.equal(readers.list({ "web01.krl": ["web01"], "web02.krl": ["web02"] })[0]?.version, 7);
 * ```
 *
 * @module
 */
import { formatTimestamp, type HostKrl, type KrlReader } from "@gateway/shared/wire";

interface ReaderReport {
  /** The version that it has installed; 0: none. */
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** The reports since the signer's start, in memory: each reader asks again within half a minute. */
export class KrlReaders {
  readonly #reports = new Map<string, ReaderReport>();

  /** Keeps a report. Call it for configured readers only. */
  saw(caller: string, report: ReaderReport): void {
    this.#reports.set(caller, report);
  }

  /** What each host of a config has installed. */
  byHost(
    readers: Readonly<Record<string, readonly string[]>>,
    { version, now }: { readonly version: number; readonly now: number },
  ): ReadonlyMap<string, HostKrl> {
    return new Map(
      Object.entries(readers).flatMap(([caller, hosts]) => {
        const report = this.#reports.get(caller);
        const krl: HostKrl = report === undefined ? { current: false } : {
          version: report.version,
          age_seconds: Math.max(0, Math.floor((now - report.at) / 1000)),
          current: report.version === version,
        };
        return hosts.map((host) => [host, krl] as const);
      }),
    );
  }

  list(readers: Readonly<Record<string, readonly string[]>>): readonly KrlReader[] {
    return Object.entries(readers).map(([caller, hosts]) => {
      const report = this.#reports.get(caller);
      if (report === undefined) return { caller, hosts };
      return { caller, hosts, version: report.version, seen_at: formatTimestamp(report.at) };
    }).sort((left, right) => left.caller < right.caller ? -1 : 1);
  }
}
