import type { AuditGate } from "@gateway/shared/audit/gate";
import { AppError } from "@gateway/shared/errors";
import type { ServiceLogger } from "@gateway/shared/log";
import type { Snapshot } from "./snapshot.ts";

/** What a {@linkcode SignerState} works with. */
export interface SignerStateOptions {
  readonly initial: Snapshot;
  /** Loads and compiles the config file anew. */
  readonly load: () => Promise<Snapshot>;
  readonly gate: AuditGate;
  readonly logger: ServiceLogger;
}

/** The signer's current snapshot and the one way to replace it. */
export class SignerState {
  #current: Snapshot;
  #lastChange: Promise<unknown> = Promise.resolve();
  readonly #options: SignerStateOptions;

  constructor(options: SignerStateOptions) {
    this.#current = options.initial;
    this.#options = options;
  }

  /** The snapshot in force. Read it once a request. */
  get current(): Snapshot {
    return this.#current;
  }

  /**
   * Loads the config file and puts it in force, whole or not at all; the change is in the audit log before
   * it takes effect. Changes run one after another, so that a slow one can't undo a later one.
   *
   * @param caller who asked: a CN, or `SIGHUP`
   * @returns how many hosts are now in force
   * @throws {AppError} `invalid_config` when the file can't be used, `audit_unavailable` when the change
   * could not be recorded; the old state stays in both cases
   */
  reload(caller: string): Promise<number> {
    const change = this.#lastChange.then(() => this.#reload(caller));
    this.#lastChange = change.catch(() => undefined);
    return change;
  }

  async #reload(caller: string): Promise<number> {
    const { load, gate, logger } = this.#options;
    let next: Snapshot;
    try {
      next = await load();
    } catch (error) {
      const err = error instanceof Error ? error.message : String(error);
      await gate.bestEffort({ caller, command: "reload", outcome: "reload-failed", err });
      logger.error("reload failed, the old config stays in force", { caller, error: err });
      throw error instanceof AppError ? error : new AppError("internal", "reload failed", { cause: error });
    }
    const hosts = next.policy.hosts.size;
    await gate.require({ caller, command: `reload hosts=${hosts}`, outcome: "reloaded" });
    this.#current = next;
    logger.info("config reloaded", { caller, hosts });
    for (const warning of snapshotWarnings(next)) logger.warn(warning);
    return hosts;
  }
}

/** What an operator should know of a config that is valid and yet weak. */
export function snapshotWarnings(snapshot: Snapshot): readonly string[] {
  const { config, caKey } = snapshot;
  const warnings: string[] = [];
  if (caKey.backend === "pem") {
    warnings.push("ca_key is a file on this machine: for labs, not for production");
  }
  if (config.sign_rate_limit_per_min === 0) {
    warnings.push("sign_rate_limit_per_min is not set: callers are not limited");
  }
  if (Object.keys(config.callers).length === 0) {
    warnings.push("callers is empty: every certificate of client_ca may use every host");
  }
  return warnings;
}
