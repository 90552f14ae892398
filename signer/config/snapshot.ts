import { type CaKey, type CaKeyPorts, type CaKeyRing, loadCaKeys } from "@gateway/shared/ca";
import { loadConfig, parseConfigSteps, readConfigText } from "@gateway/shared/config";
import type { EndUserOidcConfig } from "@gateway/shared/oidc/model";
import { AppError, configError, errorText } from "@gateway/shared/errors";
import { createEnvelopeKey, type EnvelopeKey } from "@gateway/shared/envelope";
import { ifThere, readNamedFile, tryLockFile } from "@gateway/shared/files";
import { type ApprovalsConfig, type Approvers, compileApprovers } from "@gateway/shared/proofs";
import type { EndUserVerifier } from "@gateway/shared/oidc";
import { type CompiledPolicy, compilePolicySteps, visibleHosts } from "@gateway/shared/policy";
import { quoteText, writeAll } from "@gateway/shared/text";
import { finish, finishInSlices, type Steps } from "@gateway/shared/clock";
import { type ClusterAddress, loadClusterFiles } from "@gateway/shared/kubernetes";
import {
  editPath,
  findHostsWithoutKey,
  findUnreachableApprovals,
  LARGE_SIGNER_KEYS,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "./config.ts";
import { entityTagOf, namesEntityTag } from "@gateway/shared/http";

/**
 * Everything that decides about a request. A request reads the snapshot once, and a reload replaces it with
 * one assignment.
 */
export interface Snapshot {
  readonly config: SignerConfig;
  readonly policy: CompiledPolicy;
  /**
   * The version of the hosts in the database. Absent if the hosts are in the file, or if the database has no
   * version yet.
   */
  readonly policyVersion?: { readonly version: number };
  readonly hostLists: HostListResponses;
  readonly caKeys: CaKeyRing<CaKey>;
  readonly envelopeKey: EnvelopeKey | undefined;
  readonly clusterCas: ReadonlyMap<string, string>;
  /**
   * The verifier of end users. Without `end_user_oidc` it is absent, and callers that require a verified end
   * user are denied.
   */
  readonly endUsers: EndUserVerifier | undefined;
  /** `undefined`: nobody can sign approvals. */
  readonly approvers: Approvers | undefined;
  readonly reloadCallers: ReadonlySet<string>;
  readonly trustedForwarders: ReadonlySet<string>;
  readonly krlCallers: ReadonlySet<string>;
}

interface SnapshotPorts extends CaKeyPorts {
  readonly fetch: typeof fetch;
}

export type LoadedParts = Pick<Snapshot, "caKeys" | "clusterCas" | "endUsers" | "envelopeKey">;

/**
 * @param source the file's name, for messages
 * @param previous the config to be replaced. Its unchanged hosts are not checked again
 * @throws {AppError} `invalid_config` with every problem, one a line
 */
export function parseSignerConfig(
  text: string,
  source: string,
  previous?: SignerConfig,
): Steps<SignerConfig> {
  return parseConfigSteps({
    text,
    source,
    previous,
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
    large: LARGE_SIGNER_KEYS,
  });
}

/**
 * Loads the keys and the verifier that a config names. The verifier is reused if its settings are unchanged,
 * but it fetches the provider's keys again.
 *
 * @param isWhole whether the config has the hosts, for which policy_tests is written
 */
async function loadSnapshot(
  config: SignerConfig,
  ports: SnapshotPorts,
  isWhole: boolean,
  previous?: Snapshot,
): Promise<Snapshot> {
  // Compile the policy before keys are loaded, so that problems of the policy are reported without delay.
  const compiling = compile(config, previous?.policy);
  const policy = previous === undefined ? finish(compiling) : await finishInSlices(compiling, ports.clock);
  if (isWhole && config.policy_tests !== "") {
    // The analyses are loaded only if they are used.
    const { requirePolicyTests } = await import("@gateway/shared/policy/analysis");
    await requirePolicyTests(policy, config.policy_tests, { load: loadConfig, clock: ports.clock });
  }
  const oidc = config.end_user_oidc;
  const isSame = JSON.stringify(oidc) === JSON.stringify(previous?.config.end_user_oidc);
  const endUsers = oidc === undefined || isSame ? previous?.endUsers : await loadEndUsers(oidc, ports);
  if (isSame) endUsers?.expireKeys();
  const caKeys = await loadCaKeys(config, { ...ports, what: "signer config" });
  const envelopeKey = await loadEnvelopeKey(config.envelope_key);
  const clusterCas = await loadClusterFiles(policy.clusters);
  return createSnapshot(config, policy, {
    caKeys,
    clusterCas,
    envelopeKey,
    endUsers: oidc === undefined ? undefined : endUsers,
  });
}

async function loadEnvelopeKey(path: string): Promise<EnvelopeKey | undefined> {
  if (path === "") return undefined;
  const seed = await readNamedFile("envelope_key", path);
  try {
    return createEnvelopeKey(seed);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError(error.code, `Cannot use envelope_key ${quoteText(path)}: ${error.message}`);
  }
}

async function loadEndUsers(oidc: EndUserOidcConfig, ports: SnapshotPorts): Promise<EndUserVerifier> {
  // The libraries for tokens are loaded only if they are used.
  const { loadEndUserVerifier } = await import("@gateway/shared/oidc");
  return await loadEndUserVerifier(oidc, ports);
}

/** @throws {AppError} `invalid_config` with every problem of the policy, one a line */
export function compileSnapshot(config: SignerConfig, parts: LoadedParts): Snapshot {
  return createSnapshot(config, finish(compile(config)), parts);
}

function createSnapshot(config: SignerConfig, policy: CompiledPolicy, parts: LoadedParts): Snapshot {
  return {
    config,
    policy,
    hostLists: new HostListResponses(policy),
    approvers: config.approvals && approversOf(config.approvals),
    ...parts,
    reloadCallers: namedCallers(config.reload_callers),
    trustedForwarders: namedCallers(config.trusted_forwarders),
    krlCallers: namedCallers(Object.keys(config.krl_callers)),
  };
}

/** @throws {AppError} `invalid_config` with every problem, one a line */
function approversOf(config: ApprovalsConfig): Approvers {
  const compiled = compileApprovers(config);
  if (compiled.kind === "ok") return compiled.approvers;
  throw configError(`Cannot use signer config: ${compiled.problems.join("\n  ")}`);
}

function* compile(config: SignerConfig, previous?: CompiledPolicy): Steps<CompiledPolicy> {
  const compiled = yield* compilePolicySteps(config, previous);
  yield;
  const unusable = [...findHostsWithoutKey(config), ...findUnreachableApprovals(config)];
  if (compiled.kind === "ok" && unusable.length === 0) return compiled.policy;
  const problems = [...(compiled.kind === "ok" ? [] : compiled.problems), ...unusable];
  throw configError(`Cannot use signer config: ${problems.join("\n  ")}`);
}

/** No caller has an empty CN, so an empty string in a list of CNs matches no caller. */
function namedCallers(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.filter((name) => name !== ""));
}

export function clusterAddress({ policy, clusterCas }: Snapshot, name: string): ClusterAddress | undefined {
  const cluster = policy.clusters.get(name);
  return cluster && { cluster, ca: clusterCas.get(name) ?? "" };
}

/**
 * The maximum number of remembered tags. A limit is necessary because a forwarder can name any number of
 * callers.
 */
const MAX_TAGS = 1024;

/**
 * The answers to `GET /v1/hosts`. The tags of the lists are remembered for each caller. The lists are not,
 * because a list of 10,000 hosts has 2 MB.
 */
class HostListResponses {
  readonly #policy: CompiledPolicy;
  readonly #tags = new Map<string, string>();

  constructor(policy: CompiledPolicy) {
    this.#policy = policy;
  }

  answer(caller: string, ifNoneMatch: string | null): Response {
    const known = this.#tags.get(caller);
    if (known !== undefined && namesEntityTag(ifNoneMatch, known)) return answer(304, known, null);
    const text = JSON.stringify(visibleHosts(this.#policy, caller));
    const tag = known ?? this.#keep(caller, entityTagOf(text));
    return namesEntityTag(ifNoneMatch, tag) ? answer(304, tag, null) : answer(200, tag, text);
  }

  #keep(caller: string, tag: string): string {
    if (this.#tags.size >= MAX_TAGS) this.#tags.clear();
    this.#tags.set(caller, tag);
    return tag;
  }
}

function answer(status: 200 | 304, tag: string, body: string | null): Response {
  return new Response(body, {
    status,
    headers: {
      etag: tag,
      // The client must revalidate its copy on each request, so that a freeze takes effect.
      "cache-control": "private, no-cache",
      ...(body === null ? {} : { "content-type": "application/json" }),
    },
  });
}

/**
 * Reads and compiles the config file. While the signer runs, it compiles in slices, so that thousands of
 * hosts do not delay requests.
 */
export type ConfigFile = ReturnType<typeof openConfigFile>;

export function openConfigFile(path: string, ports: SnapshotPorts) {
  const read = () => readConfigText(path, "signer config");
  const parse = (text: string, previous?: SignerConfig) =>
    finishInSlices(parseSignerConfig(text, path, previous), ports.clock);
  return {
    read,
    /** @throws {AppError} `invalid_config` */
    parse,
    /**
     * @param previous the snapshot in force, whose parts are kept if their settings are the same
     * @param hosts "database": the hosts of the database are in the text
     */
    async compile(text: string, previous?: Snapshot, hosts?: "database"): Promise<Snapshot> {
      // When the signer starts, no request waits, so compile without slices.
      const config = previous === undefined
        ? finish(parseSignerConfig(text, path))
        : await parse(text, previous.config);
      return await loadSnapshot(
        config,
        ports,
        config.policy_source === "file" || hosts !== undefined,
        previous,
      );
    },
    /**
     * Replaces the text of the file if it is still the expected text. Returns false if the file has changed,
     * or if an operator's program is editing the file.
     */
    async replace(expected: string, text: string): Promise<boolean> {
      using lock = await tryLockFile(path);
      if (lock === undefined || await read() !== expected) return false;
      await replaceConfigFile(path, text);
      return true;
    },
  };
}

/**
 * Replaces a config file atomically and durably, and keeps its mode. The temporary file has a fixed name, so
 * that the process needs permission for no other file in the directory.
 */
async function replaceConfigFile(path: string, text: string): Promise<void> {
  const next = editPath(path);
  try {
    const { mode } = await Deno.stat(path);
    await ifThere(Deno.remove(next));
    {
      using file = await Deno.open(next, { write: true, createNew: true, mode: 0o600 });
      await writeAll(file, new TextEncoder().encode(text));
      await file.sync();
    }
    if (mode !== null) await Deno.chmod(next, mode & 0o7777);
    await Deno.rename(next, path);
    // The process has no permission to open the directory. Syncing the file also commits its
    // rename.
    using renamed = await Deno.open(path, { read: true });
    await renamed.sync();
  } catch (cause) {
    throw new AppError("internal", "The config file could not be written", { cause });
  }
}

/** A text that changes whenever a file is written or replaced; the error text if the file cannot be read. */
export async function fileStamp(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtime } = await Deno.stat(path);
    return [dev, ino, size, mtime?.getTime()].join();
  } catch (error) {
    return errorText(error);
  }
}

/** The name and address of a host or cluster for a record; empty for an unknown name. */
export function namesOf({ policy: { hosts, clusters } }: Snapshot, host_name: string) {
  const addr = hosts.get(host_name)?.addr ?? clusters.get(host_name)?.apiServer;
  return addr === undefined ? {} : { host_name, addr };
}
