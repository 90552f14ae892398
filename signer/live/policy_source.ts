/**
 * Where the hosts are: in the config file, or, for several signers, in their database. There each change is a version
 * of all hosts, and a document of the shape `{"hosts": {…}}`; the rest of the config is each signer's own.
 *
 * @module
 */
import { setValue } from "@gateway/shared/config";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import * as z from "@zod/zod";
import { findMisplacedHosts, type SignerConfig } from "../config/config.ts";
import type { ConfigFile } from "../config/config_file.ts";
import type { Snapshot } from "../config/snapshot.ts";
import type { PolicyVersions, StoredDocument, StoredPolicy } from "./state/postgres.ts";

/** What a {@linkcode PolicySource} works with. */
interface PolicySourceOptions {
  readonly from: SignerConfig["policy_source"];
  readonly configFile: ConfigFile;
  /** Present where the state is in a database that others may share. */
  readonly versions?: PolicyVersions | undefined;
  /** SHA-256 of a text, lower-case hex. */
  readonly digest?: (document: string) => string;
}

type Newest = StoredPolicy & { readonly document: string };
type Proposal = Required<StoredDocument>;

const documentShape = z.strictObject({ hosts: z.record(z.string(), z.unknown()) });

export function writeDocument(hosts: unknown): string {
  return JSON.stringify({ hosts }, null, 1);
}

/**
 * The hosts of a document, as they are written.
 *
 * @throws {AppError} `invalid_config` when it is something else
 */
export function readDocument(document: string): Readonly<Record<string, unknown>> {
  try {
    return documentShape.parse(parseJson(document)).hosts;
  } catch (cause) {
    throw new AppError("invalid_config", 'not a JSON object with "hosts" alone', { cause });
  }
}

/** Knows the version that is to be decided by, and whether it is. */
export class PolicySource {
  readonly #options: PolicySourceOptions;
  #newest: Newest | undefined;
  /** What was compiled to be checked, and comes into force next: thousands of hosts are not compiled twice. */
  #prepared: { readonly document: string; readonly text: string; readonly snapshot: Snapshot } | undefined;
  /** What may come into force next, as far as it is known here. */
  #proposal: Proposal | undefined;
  /** What is compiled at the moment, before it is in force. */
  #preparing: { readonly document: string; readonly done: Promise<unknown> } | undefined;
  /** Counts what was loaded: it may have read other keys than what is being compiled meanwhile. */
  #loads = 0;
  /** What is wrong with the newest version, if that can be mended by nothing but another version or config. */
  #fault: string | undefined;

  constructor(options: PolicySourceOptions) {
    this.#options = options;
  }

  /** What a document is known by. */
  digest(document: string): string {
    return this.#options.digest?.(document) ?? "";
  }

  /** Where the versions are; absent without a database. */
  get versions(): PolicyVersions | undefined {
    return this.#options.versions;
  }

  get from(): SignerConfig["policy_source"] {
    return this.#options.from;
  }

  /** The newest version that is known here, in force or not. */
  get newest(): Newest | undefined {
    return this.#newest;
  }

  /** Takes note of the newest version; whether it is another one than before. */
  learn(stored: StoredPolicy | undefined): boolean {
    const known = this.#newest;
    if (stored?.version === known?.version && stored?.sha256 === known?.sha256) return false;
    const document = stored && this.#documentOf(stored);
    this.#newest = stored && document !== undefined ? { ...stored, document } : undefined;
    this.#fault = undefined;
    return true;
  }

  /** SHA-256 of the documents that need not be read again. */
  get known(): readonly string[] {
    return [this.#newest, this.#proposal].flatMap((known) => known === undefined ? [] : [known.sha256]);
  }

  /** Takes note of what may come into force next; gives it where it is news. */
  learnProposal(stored: StoredDocument | undefined): Proposal | undefined {
    const document = stored && this.#documentOf(stored);
    const isNews = stored !== undefined && stored.sha256 !== this.#proposal?.sha256;
    this.#proposal = stored && document !== undefined ? { sha256: stored.sha256, document } : undefined;
    return isNews ? this.#proposal : undefined;
  }

  isProposed(sha256: string): boolean {
    return this.#proposal?.sha256 === sha256;
  }

  /** Whether it is compiled here, or is being. */
  hasPrepared(document: string): boolean {
    return this.#prepared?.document === document || this.#preparing?.document === document;
  }

  #documentOf({ sha256, document }: StoredDocument): string | undefined {
    return document ?? [this.#newest, this.#proposal].find((known) => known?.sha256 === sha256)?.document;
  }

  /** Why nothing is decided by a snapshot; `undefined`: it is decided by. */
  problemOf({ policyVersion }: Pick<Snapshot, "policyVersion">): string | undefined {
    const newest = this.#newest;
    if (this.from === "file") {
      // The first version is the file's own hosts, put there before the signers read them from there.
      if (newest === undefined || newest.version === 1) return undefined;
      return `the hosts are in the database (version ${newest.version}), and policy_source is "file"`;
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
   * Call it before a decision, and again after the last wait before anything is released.
   *
   * @param current the snapshot in force
   * @throws {AppError} `state_stale` when it has not the newest hosts
   */
  requireCurrent(current: Snapshot): void {
    if (this.problemOf(current) === undefined) return;
    throw new AppError("state_stale", "This signer does not decide by the newest policy at the moment", {
      retryAfterSeconds: 1,
    });
  }

  /**
   * Reads the config anew, with the newest hosts.
   *
   * @throws {AppError} `invalid_config`
   */
  async load(previous: Snapshot): Promise<Snapshot> {
    if (this.from === "file") return this.#checked(await this.#compileFile(previous));
    const newest = this.#newest;
    // It is sooner done than done again.
    if (newest?.document === this.#preparing?.document) await this.#preparing?.done.catch(() => {});
    this.#loads++;
    try {
      const snapshot = newest === undefined
        ? await this.#compileFile(previous)
        : { ...await this.compile(newest.document, previous, newest.sha256), policyVersion: newest };
      return this.#checked(snapshot);
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
   * What the config is with the hosts of a document.
   *
   * @param sha256 what the document is known by, where it comes from the database
   * @throws {AppError} `invalid_config`
   */
  async compile(document: string, previous: Snapshot, sha256?: string): Promise<Snapshot> {
    if (sha256 !== undefined && this.digest(document) !== sha256) {
      throw new AppError(
        "invalid_config",
        "it was changed by hand: it has another SHA-256 than it was written with",
      );
    }
    return (await this.#compile(document, previous)).snapshot;
  }

  /**
   * Likewise, for a change that is about to be made: the next load of just that takes what was compiled here.
   *
   * @throws {AppError} `invalid_config`
   */
  async prepare(document: string, previous: Snapshot): Promise<Snapshot> {
    this.#prepared = undefined;
    const loads = this.#loads;
    const compiled = this.#compile(document, previous);
    const preparing = { document, done: compiled };
    this.#preparing = preparing;
    try {
      const { text, snapshot } = await compiled;
      if (loads === this.#loads) this.#prepared = { document, text, snapshot };
      return snapshot;
    } finally {
      if (this.#preparing === preparing) this.#preparing = undefined;
    }
  }

  async #compile(
    document: string,
    previous: Snapshot,
  ): Promise<{ readonly text: string; readonly snapshot: Snapshot }> {
    const { configFile } = this.#options;
    const text = await configFile.read();
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared?.document === document && prepared.text === text) return prepared;
    const hosts = readDocument(document);
    this.checkFile(await configFile.parse(text));
    return { text, snapshot: await configFile.compile(setValue(text, ["hosts"], hosts), previous) };
  }

  /**
   * The config with the hosts of a document, checked key by key.
   *
   * @throws {AppError} `invalid_config`
   */
  async parse(document: string): Promise<SignerConfig> {
    const { configFile } = this.#options;
    return await configFile.parse(setValue(await configFile.read(), ["hosts"], readDocument(document)));
  }

  /** @throws {AppError} `invalid_config` when the file has hosts that are not decided by */
  checkFile(config: SignerConfig): void {
    const problem = findMisplacedHosts(config);
    if (problem !== undefined) throw new AppError("invalid_config", `Cannot use signer config: ${problem}`);
  }

  async #compileFile(previous: Snapshot): Promise<Snapshot> {
    const { configFile } = this.#options;
    const snapshot = await configFile.compile(await configFile.read(), previous);
    this.checkFile(snapshot.config);
    return snapshot;
  }

  #checked(snapshot: Snapshot): Snapshot {
    if (snapshot.config.policy_source === this.from) return snapshot;
    throw new AppError("invalid_config", "policy_source is read at start only: restart the signer");
  }
}
