/** Fixture of the tests of the audit log on disk: a directory, a log in it, and functions to inspect both. */
import assert from "node:assert/strict";
import { type AuditLog, createAuditKey, verifyAll } from "@gateway/shared/audit";
import { type FileAuditLogOptions, openFileAuditLog } from "../../shared/audit/log.ts";

export const SEED: Uint8Array = new Uint8Array(32).fill(9);
export const NOW: number = Date.UTC(2026, 0, 2, 3, 4, 5);
const { publicKey } = createAuditKey(SEED);

export class LogFolder implements AsyncDisposable {
  readonly folder: string;
  readonly path: string;
  readonly warnings: string[] = [];
  now = NOW;

  constructor(folder: string = Deno.makeTempDirSync({ prefix: "audit-" })) {
    this.folder = folder;
    this.path = `${folder}/audit.log`;
  }

  open(options: Partial<FileAuditLogOptions> = {}): Promise<AuditLog> {
    return openFileAuditLog({ ...this.options(), ...options });
  }

  options(): FileAuditLogOptions {
    return {
      path: this.path,
      seed: SEED,
      clock: { now: () => this.now, sleep: () => Promise.resolve() },
      redact: (text) => text,
      logger: { warn: (message) => this.warnings.push(message) },
    };
  }

  async write(...outcomes: readonly string[]): Promise<void> {
    const log = await this.open();
    for (const outcome of outcomes) await log.append({ outcome });
    await log.close();
  }

  async problems(): Promise<readonly string[]> {
    const problems: string[] = [];
    await verifyAll({
      path: this.path,
      publicKey,
      onProblem: ({ file, line, message }) => problems.push(`${this.#short(file)}:${line} ${message}`),
    });
    return problems;
  }

  /** The names in the directory, without the lock, sorted. */
  names(): readonly string[] {
    return Array.from(Deno.readDirSync(this.folder), ({ name }) => name)
      .filter((name) => name !== "audit.log.lock").sort();
  }

  records(name = "audit.log"): readonly Record<string, unknown>[] {
    const lines = Deno.readTextFileSync(`${this.folder}/${name}`).split("\n");
    return lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.folder, { recursive: true });
  }

  #short(file: string): string {
    return file.slice(this.folder.length + 1);
  }
}

export async function assertRefused(folder: LogFolder, message: RegExp): Promise<void> {
  await assert.rejects(folder.open(), { code: "invalid_config", message });
}
