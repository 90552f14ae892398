import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import { ChangeLock } from "@gateway/shared/state";
import { AppError, errorText } from "@gateway/shared/errors";
import { envelopePublicKeyText, envelopeSignersLine } from "@gateway/shared/envelope";
import { type Clock, finish, finishInSlices, type Steps } from "@gateway/shared/clock";
import type { ServiceLogger } from "@gateway/shared/service";
import {
  describeSharedPrincipals,
  describeUnconnectable,
  describeUnsealedTwins,
  findInertPolicies,
  findListGaps,
  findUnprovedShells,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { isHostIdentity } from "@gateway/shared/wire";
import type { Snapshot } from "../config/snapshot.ts";

/** What a {@linkcode SignerState} works with. */
interface SignerStateOptions {
  readonly initial: Snapshot;
  /** Loads and compiles the config file again. */
  readonly load: (previous: Snapshot) => Promise<Snapshot>;
  readonly gate: AuditGate;
  readonly logger: ServiceLogger;
  readonly clock: Clock;
  /** The lock of all changes to what is decided by. */
  readonly lock: ChangeLock;
  /** Told of each reload, for metrics. */
  readonly onReload?: (succeeded: boolean) => void;
}

/** A snapshot that is ready, the record of putting it in force, and what has to be on disk first. */
interface Change {
  readonly snapshot: Snapshot;
  readonly entry: AuditEntry;
  /**
   * Makes the change durable; it runs after the record and before the effect.
   *
   * @returns false when what the change was built on is gone: it is built again then
   */
  readonly persist?: () => Promise<boolean>;
}

/** A config file that changes faster than it can be loaded is somebody's defect. */
const MAX_ATTEMPTS = 20;

/** The signer's current snapshot and the one way to replace it. */
export class SignerState {
  #current: Snapshot;
  #generation = 0;
  readonly #reloads = new ChangeLock();
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
   * it takes effect. Reloads run one after another.
   *
   * @param caller who asked: a CN, `SIGHUP` or `auto-reload`
   * @returns how many hosts are now in force
   * @throws {AppError} `invalid_config` when the file can't be used, `audit_unavailable` when the change
   * could not be recorded; the old state stays in both cases
   */
  reload(caller: string): Promise<number> {
    return this.#reloads.run(() => this.#reload(caller));
  }

  /**
   * Puts a change in force. It is built without the lock, because loading a key can take long and a freeze must not
   * wait for it; when another change came first, it is built again on what that one left (K23).
   *
   * @throws what `build` throws, and {@linkcode AppError} `audit_unavailable`: nothing has changed then
   */
  async apply(build: () => Promise<Change>): Promise<Snapshot> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const seen = this.#generation;
      const { snapshot, entry, persist } = await build();
      const done = await this.#options.lock.run(async () => {
        if (this.#generation !== seen) return false;
        await this.#options.gate.require(entry);
        if (persist !== undefined && !await persist()) return false;
        this.#current = snapshot;
        this.#generation += 1;
        return true;
      });
      if (done) return snapshot;
    }
    throw new AppError("conflict", "The config changes all the time");
  }

  async #reload(caller: string): Promise<number> {
    const { load, gate, logger, clock } = this.#options;
    try {
      const snapshot = await this.apply(async () => {
        const snapshot = await load(this.#current);
        const { policy, policyVersion } = snapshot;
        const command = `reload hosts=${policy.hosts.size}`;
        const policy_version = policyVersion?.version;
        return { snapshot, entry: { caller, command, policy_version, outcome: "reloaded" } };
      });
      const hosts = snapshot.policy.hosts.size;
      this.#options.onReload?.(true);
      logger.info("config reloaded", { caller, hosts });
      logEnvelopeKey(snapshot, logger);
      for (const warning of await finishInSlices(findWarnings(snapshot), clock)) logger.warn(warning);
      return hosts;
    } catch (error) {
      const err = errorText(error);
      this.#options.onReload?.(false);
      await gate.bestEffort({ caller, command: "reload", outcome: "reload-failed", err });
      logger.error("reload failed, the old config stays in force", { caller, error: err });
      throw error instanceof AppError ? error : new AppError("internal", "reload failed", { cause: error });
    }
  }
}

/** Tells operators the key that the shims of sealed hosts have to know. */
export function logEnvelopeKey(
  { envelopeKey, policy }: Snapshot,
  logger: Pick<ServiceLogger, "info">,
): void {
  if (envelopeKey === undefined || ![...policy.hosts.values()].some(({ seal }) => seal !== undefined)) return;
  logger.info("envelope public key", {
    envelope_public_key: envelopePublicKeyText(envelopeKey),
    envelope_signers: envelopeSignersLine(envelopeKey),
  });
}

/** What an operator should know of a config that is valid and yet weak. */
export function snapshotWarnings(snapshot: Snapshot): readonly string[] {
  return finish(findWarnings(snapshot));
}

/** In steps, for a service that answers requests meanwhile: some look at every host. */
function* findWarnings(snapshot: Snapshot): Steps<readonly string[]> {
  const { config, caKeys, policy } = snapshot;
  const warnings: string[] = [];
  if ([caKeys.fallback, ...caKeys.byGroup.values()].some(({ backend }) => backend === "pem")) {
    warnings.push("a CA key is a file on this machine: for labs, not for production");
  }
  const needsVerifier = [...policy.callers.values()].some((caller) => caller.requireVerifiedEndUser);
  if (needsVerifier && snapshot.endUsers === undefined) {
    warnings.push(
      "a caller has require_verified_end_user, but there is no end_user_oidc: it gets no certificate",
    );
  }
  for (const [cn, { only_via = [] }] of Object.entries(config.callers)) {
    if (only_via.some((forwarder) => snapshot.trustedForwarders.has(forwarder))) continue;
    if (only_via.length > 0) {
      warnings.push(`callers.${cn}.only_via names nobody of trusted_forwarders: it gets no certificate`);
    }
  }
  for (const [cn, hosts] of Object.entries(config.krl_callers)) {
    for (const host of hosts.filter((name) => !Object.hasOwn(config.hosts, name))) {
      warnings.push(`krl_callers.${cn} names ${host}, which is not in hosts`);
    }
  }
  if (config.state_db === "") {
    warnings.push("state_db is not set: grants and freezes are gone with the process");
  }
  for (const { name, leaseNamespace } of policy.clusters.values()) {
    if (leaseNamespace === "" || config.state_db !== "") continue;
    warnings.push(
      `kubernetes.clusters.${name}.token_binding without state_db: Secrets of a process that is killed stay in ${leaseNamespace}`,
    );
  }
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    const compiled = policy.clusters.get(name);
    for (const { index, list } of compiled === undefined ? [] : findListGaps(cluster, compiled)) {
      warnings.push(
        `kubernetes.clusters.${name}.rules[${index}] denies what "${list}" shows, which no rule denies: ` +
          '"-" among its namespaces and names stands for such lists',
      );
    }
  }
  if (config.sign_rate_limit_per_min === 0) {
    warnings.push("sign_rate_limit_per_min is not set: callers are not limited");
  }
  if (Object.keys(config.callers).length === 0) {
    warnings.push("callers is empty: every certificate of client_ca may use every host");
  }
  for (const name of Object.keys(config.krl_callers).filter((name) => !isHostIdentity(name))) {
    warnings.push(
      `krl_callers: ${
        quoteText(name)
      } does not end with ".krl": to a broker (serve-http) its holder is an agent`,
    );
  }
  const silent = Object.entries(config.hosts)
    .filter(([, { sealed_exec, envelope }]) => sealed_exec === true && envelope === undefined)
    .map(([name]) => name);
  if (silent.length > 0) {
    warnings.push(
      `sealed_exec without envelope signs envelopes v2 (hosts ${
        silent.join(", ")
      }): if the shim there is of another ` +
        'build, set "envelope": "v1" and its "envelope_domain"; otherwise name the version that the shim reads, such as "v2"',
    );
  }
  for (const path of yield* findInertPolicies(config)) {
    warnings.push(`${path}: mode is "off", so that its allow and deny patterns have no effect`);
  }
  warnings.push(...yield* describeSharedPrincipals(config.hosts));
  warnings.push(...yield* describeUnsealedTwins(config.hosts));
  warnings.push(...describeUnconnectable(config.hosts));
  warnings.push(...yield* findUnprovedShells(config.hosts, policy.hosts));
  return warnings;
}
