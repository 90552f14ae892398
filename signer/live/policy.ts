/**
 * The policy in force, and the source of its hosts: the config file, or a database that several signers
 * share. In the database each change is a new version of all hosts, a document of the form `{"hosts": {…}}`.
 * The rest of the config stays in each signer's file.
 */
import type { AuditEntry, AuditGate } from "@gateway/shared/audit";
import { type Clock, finishInSlices } from "@gateway/shared/clock";
import { setValue } from "@gateway/shared/config";
import { AppError, configError, errorText, staleError } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ServiceLogger } from "@gateway/shared/service";
import { ChangeLock } from "@gateway/shared/state";
import * as z from "@zod/zod";
import { findMisplacedHosts, type SignerConfig } from "../config/config.ts";
import type { ConfigFile, Snapshot } from "../config/snapshot.ts";
import { findWarnings, logEnvelopeKey } from "../config/warnings.ts";
import { digestOf, type PolicyVersions, type StoredDocument, type StoredPolicy } from "./state/postgres.ts";

const MAX_ATTEMPTS = 20;

interface SignerStateOptions {
  readonly initial: Snapshot;
  readonly load: (previous: Snapshot) => Promise<Snapshot>;
  readonly gate: AuditGate;
  readonly logger: ServiceLogger;
  readonly clock: Clock;
  readonly lock: ChangeLock;
}

interface Reloaded {
  readonly hosts: number;
  /**
   * The patterns that the previous policy did not have. `broker-ctl reload` analyzes them: the analysis of one pattern
   * can take 3 s and 70 MB, which the signer does not have.
   */
  readonly newPatterns: readonly string[];
}

export class SignerState {
  #current: Snapshot;
  #generation = 0;
  /**
   * Whether the last reload succeeded, and the time when the config in force was loaded. The start counts as
   * a reload.
   */
  lastReload: { readonly succeeded: boolean; readonly at: number };
  readonly #reloads = new ChangeLock();
  readonly #options: SignerStateOptions;

  constructor(options: SignerStateOptions) {
    this.#current = options.initial;
    this.#options = options;
    this.lastReload = { succeeded: true, at: options.clock.now() };
  }

  /** The snapshot in force. Read it once for each request. */
  get current(): Snapshot {
    return this.#current;
  }

  /**
   * Loads the config file and puts it in force atomically, after the record is durable. Reloads run one after
   * another.
   *
   * @param caller the CN that requested it, `SIGHUP`, `auto-reload` or `policy-source`
   * @returns the number of hosts in force, and the patterns that the previous policy did not have
   * @throws {AppError} `invalid_config` or `audit_unavailable`; the previous config then stays in force
   */
  reload(caller: string): Promise<Reloaded> {
    return this.#reloads.run(() => this.#reload(caller));
  }

  /**
   * Puts a change in force. The snapshot is built without the lock, because loading a key can take long and a
   * freeze must not wait. If another change was made in the meantime, the snapshot is built again on the
   * result of that change (K23).
   *
   * @param build makes a snapshot, and `persist`, which makes it durable after the record and before the
   * effect; false from `persist` means that what the change was built on is gone
   * @throws the errors of `build`, and {@linkcode AppError} `audit_unavailable`: nothing has changed then
   */
  async apply(
    build: () => Promise<{
      readonly snapshot: Snapshot;
      readonly entry: AuditEntry;
      readonly persist?: () => Promise<boolean>;
    }>,
  ): Promise<Snapshot> {
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
    throw new AppError("conflict", "The config keeps changing: try again");
  }

  async #reload(caller: string): Promise<Reloaded> {
    const { load, gate, logger, clock } = this.#options;
    try {
      let { policy } = this.#current;
      const snapshot = await this.apply(async () => {
        ({ policy } = this.#current);
        const snapshot = await load(this.#current);
        const command = `reload hosts=${snapshot.policy.hosts.size}`;
        const policy_version = snapshot.policyVersion?.version;
        return { snapshot, entry: { caller, command, policy_version, outcome: "reloaded" } };
      });
      const hosts = snapshot.policy.hosts.size;
      this.lastReload = { succeeded: true, at: clock.now() };
      const newPatterns = [...snapshot.policy.patterns.keys()].filter((each) => !policy.patterns.has(each));
      logger.info("config reloaded", { caller, hosts, new_patterns: newPatterns.length });
      logEnvelopeKey(snapshot, logger);
      for (const warning of await finishInSlices(findWarnings(snapshot), clock)) logger.warn(warning);
      return { hosts, newPatterns };
    } catch (error) {
      const err = errorText(error);
      this.lastReload = { ...this.lastReload, succeeded: false };
      await gate.bestEffort({ caller, command: "reload", outcome: "reload-failed", err });
      logger.error("config reload failed, keeping the previous one", { caller, error: err });
      throw error instanceof AppError ? error : new AppError("internal", "reload failed", { cause: error });
    }
  }
}

const documentShape = z.strictObject({ hosts: z.record(z.string(), z.unknown()) });

export function writeDocument(hosts: unknown): string {
  return JSON.stringify({ hosts }, null, 1);
}

/** @throws {AppError} `invalid_config` if it is not a document of hosts */
export function readDocument(document: string): Readonly<Record<string, unknown>> {
  try {
    return documentShape.parse(parseJson(document)).hosts;
  } catch (cause) {
    throw configError('not a JSON object with "hosts" alone', cause);
  }
}

interface PolicySourceOptions {
  readonly from: SignerConfig["policy_source"];
  readonly configFile: ConfigFile;
  readonly versions?: PolicyVersions | undefined;
  readonly logger: Pick<ServiceLogger, "warn">;
}

type Newest = StoredPolicy & { readonly document: string };
type Proposal = Required<StoredDocument>;

/**
 * The version of the hosts that requests must be decided by. Compiling a change of thousands of hosts takes a
 * second. When a change is acknowledged, no signer may decide by the version before it. Therefore all signers
 * compile a proposed document before it becomes a version.
 */
export class PolicySource {
  readonly from: SignerConfig["policy_source"];
  readonly versions: PolicyVersions | undefined;
  readonly #options: PolicySourceOptions;
  #newest: Newest | undefined;
  #proposal: Proposal | undefined;
  /** A document that was compiled for a check and comes into force next. It is not compiled again. */
  #prepared: { readonly document: string; readonly text: string; readonly snapshot: Snapshot } | undefined;
  #preparing: { readonly document: string; readonly done: Promise<unknown> } | undefined;
  /** The preparations of proposals, which run one after another. */
  #preparations: Promise<void> = Promise.resolve();
  /** The number of loads. A load may have read other keys than a preparation that runs at the same time. */
  #loads = 0;
  /** The problem of the newest version, if it needs another version or another config. */
  #fault: string | undefined;

  constructor(options: PolicySourceOptions) {
    this.from = options.from;
    this.versions = options.versions;
    this.#options = options;
  }

  /** The newest version, which may not be in force yet. */
  get newest(): Newest | undefined {
    return this.#newest;
  }

  /** The SHA-256 of the documents that need not be read again. */
  get known(): readonly string[] {
    return [this.#newest, this.#proposal].flatMap((known) => known === undefined ? [] : [known.sha256]);
  }

  /** Stores the newest version. Returns whether it is a different one. */
  learn(stored: StoredPolicy | undefined): boolean {
    const known = this.#newest;
    if (stored?.version === known?.version && stored?.sha256 === known?.sha256) return false;
    const document = stored && this.#documentOf(stored);
    this.#newest = stored && document !== undefined ? { ...stored, document } : undefined;
    this.#fault = undefined;
    return true;
  }

  /** Stores the document that may come into force next, and compiles it in the background. */
  learnProposal(stored: StoredDocument | undefined, state: Pick<SignerState, "current">): void {
    const document = stored && this.#documentOf(stored);
    const isNews = stored !== undefined && stored.sha256 !== this.#proposal?.sha256;
    this.#proposal = stored && document !== undefined ? { sha256: stored.sha256, document } : undefined;
    const proposal = this.#proposal;
    if (!isNews || proposal === undefined) return;
    if (this.#prepared?.document === document || this.#preparing?.document === document) return;
    this.#preparations = this.#preparations.then(() => this.#prepareProposal(proposal, state));
  }

  prepared(): Promise<void> {
    return this.#preparations;
  }

  async #prepareProposal(
    { sha256, document }: Proposal,
    state: Pick<SignerState, "current">,
  ): Promise<void> {
    const { logger } = this.#options;
    // Another proposal has replaced this one, or this one is in force.
    if (this.#proposal?.sha256 !== sha256) return;
    try {
      if (this.from === "database") await this.prepare(document, state.current);
    } catch (error) {
      logger.warn("proposed policy change is invalid on this signer", { error });
    }
    try {
      // Announce it even if the document is invalid on this signer: the others would gain nothing by waiting
      // longer.
      await this.versions?.announcePrepared(sha256);
    } catch (error) {
      logger.warn("announcing a prepared policy change failed", { error });
    }
  }

  #documentOf({ sha256, document }: StoredDocument): string | undefined {
    return document ?? [this.#newest, this.#proposal].find((known) => known?.sha256 === sha256)?.document;
  }

  /** The reason why no request may be decided by a snapshot; `undefined` if there is none. */
  problemOf({ policyVersion }: Pick<Snapshot, "policyVersion">): string | undefined {
    const newest = this.#newest;
    if (this.from === "file") {
      // The first version contains the hosts of the file, which were imported before the signers read the
      // database.
      if (newest === undefined || newest.version === 1) return undefined;
      return `the hosts are in the database (version ${newest.version}), but policy_source is "file"`;
    }
    if (newest === undefined) return "the database has no hosts yet: broker-ctl policy import";
    if (policyVersion === newest) return undefined;
    const fault = this.#fault === undefined ? "is not in force yet" : `can't be used: ${this.#fault}`;
    return `version ${newest.version} of the policy ${fault}`;
  }

  /** Whether the newest version may come into force by another attempt alone. */
  isWaiting(current: Snapshot): boolean {
    return this.from === "database" && this.#newest !== undefined && this.#fault === undefined &&
      current.policyVersion !== this.#newest;
  }

  /**
   * Call it before a decision, and again after the last wait before a release.
   *
   * @throws {AppError} `state_stale` if the snapshot in force does not contain the newest hosts
   */
  requireCurrent(current: Snapshot): void {
    if (this.problemOf(current) === undefined) return;
    throw staleError("This signer does not have the newest policy in force yet");
  }

  /** Reads the config again, with the newest hosts. @throws {AppError} `invalid_config` */
  async load(previous: Snapshot): Promise<Snapshot> {
    const newest = this.from === "file" ? undefined : this.#newest;
    // Wait for the preparation, which is quicker than compiling the document again.
    if (newest !== undefined && newest.document === this.#preparing?.document) {
      await this.#preparing.done.catch(() => {});
    }
    this.#loads++;
    try {
      const snapshot = newest === undefined
        ? await this.#compileFile(previous)
        : { ...await this.compile(newest.document, previous, newest.sha256), policyVersion: newest };
      if (snapshot.config.policy_source === this.from) return snapshot;
      throw configError("policy_source is read at start only: restart the signer");
    } catch (error) {
      if (newest === undefined || newest !== this.#newest) throw error;
      this.#fault = errorText(error);
      throw new AppError(
        error instanceof AppError ? error.code : "internal",
        `version ${newest.version} of the policy can't be used: ${this.#fault}`,
        { cause: error },
      );
    }
  }

  /**
   * The config with the hosts of a document; a document of the database must have its SHA-256.
   *
   * @throws {AppError} `invalid_config`
   */
  async compile(document: string, previous: Snapshot, sha256?: string): Promise<Snapshot> {
    if (sha256 !== undefined && digestOf(document) !== sha256) {
      throw configError("it was changed manually: its SHA-256 does not match");
    }
    return (await this.#compile(document, previous)).snapshot;
  }

  /**
   * Compiles a change before it is made. The next load of the same document uses the result.
   *
   * @throws {AppError} `invalid_config`
   */
  async prepare(document: string, previous: Snapshot): Promise<Snapshot> {
    this.#prepared = undefined;
    const loads = this.#loads;
    const done = this.#compile(document, previous);
    const preparing = { document, done };
    this.#preparing = preparing;
    try {
      const { text, snapshot } = await done;
      if (loads === this.#loads) this.#prepared = { document, text, snapshot };
      return snapshot;
    } finally {
      if (this.#preparing === preparing) this.#preparing = undefined;
    }
  }

  async #compile(document: string, previous: Snapshot) {
    const { configFile } = this.#options;
    const text = await configFile.read();
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared?.document === document && prepared.text === text) return prepared;
    const hosts = readDocument(document);
    this.checkFile(await configFile.parse(text));
    return {
      text,
      snapshot: await configFile.compile(setValue(text, ["hosts"], hosts), previous, "database"),
    };
  }

  /** Parses a document and checks each key, but does not compile it. @throws {AppError} `invalid_config` */
  async parse(document: string): Promise<SignerConfig> {
    const { configFile } = this.#options;
    return await configFile.parse(setValue(await configFile.read(), ["hosts"], readDocument(document)));
  }

  /**
   * @throws {AppError} `invalid_config` if hosts are configured in the wrong place
   */
  checkFile(config: SignerConfig): void {
    const problem = findMisplacedHosts(config);
    if (problem !== undefined) throw configError(`Cannot use signer config: ${problem}`);
  }

  async #compileFile(previous: Snapshot): Promise<Snapshot> {
    const { configFile } = this.#options;
    const snapshot = await configFile.compile(await configFile.read(), previous);
    this.checkFile(snapshot.config);
    return snapshot;
  }
}
