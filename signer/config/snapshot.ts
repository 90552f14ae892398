import { type CaKey, type CaKeyPorts, type CaKeyRing, loadCaKeys } from "@gateway/shared/ca";
import { parseConfigSteps, readConfigText } from "@gateway/shared/config";
import type { EndUserOidcConfig } from "@gateway/shared/oidc/model";
import { AppError, configError, errorText } from "@gateway/shared/errors";
import { createEnvelopeKey, type EnvelopeKey } from "@gateway/shared/envelope";
import { ifThere, readNamedFile, tryLockFile } from "@gateway/shared/files";
import type { EndUserVerifier } from "@gateway/shared/oidc";
import { type CompiledPolicy, compilePolicySteps, visibleHosts } from "@gateway/shared/policy";
import { quoteText, writeAll } from "@gateway/shared/text";
import { finish, finishInSlices, type Steps } from "@gateway/shared/clock";
import { type ClusterAddress, loadClusterFiles } from "@gateway/shared/kubernetes";
import {
  editPath,
  findHostsWithoutKey,
  LARGE_SIGNER_KEYS,
  type SignerConfig,
  signerConfig,
  UNSUPPORTED_SIGNER_KEYS,
} from "./config.ts";
import { entityTagOf, namesEntityTag } from "@gateway/shared/http";

/** All that decides a request. A request reads it once; a reload replaces it by one assignment. */
export interface Snapshot {
  readonly config: SignerConfig;
  readonly policy: CompiledPolicy;
  /** Absent if the hosts are in the file, or the database has none yet. */
  readonly policyVersion?: { readonly version: number };
  readonly hostLists: HostListResponses;
  readonly caKeys: CaKeyRing<CaKey>;
  readonly envelopeKey: EnvelopeKey | undefined;
  readonly clusterCas: ReadonlyMap<string, string>;
  /** Absent without `end_user_oidc`: callers that need it are denied. */
  readonly endUsers: EndUserVerifier | undefined;
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
 * @param previous the config that is replaced: hosts that are written as before are not checked again
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
 * Loads the keys and the verifier that a config names. The verifier is kept while its settings are the same, but fetches the
 * provider's keys again.
 */
async function loadSnapshot(
  config: SignerConfig,
  ports: SnapshotPorts,
  previous?: Snapshot,
): Promise<Snapshot> {
  // Before keys are loaded, so that a broken policy is reported immediately.
  const compiling = compile(config, previous?.policy);
  const policy = previous === undefined ? finish(compiling) : await finishInSlices(compiling, ports.clock);
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
    ...parts,
    reloadCallers: namedCallers(config.reload_callers),
    trustedForwarders: namedCallers(config.trusted_forwarders),
    krlCallers: namedCallers(Object.keys(config.krl_callers)),
  };
}

function* compile(config: SignerConfig, previous?: CompiledPolicy): Steps<CompiledPolicy> {
  const compiled = yield* compilePolicySteps(config, previous);
  yield;
  const unsealable = findHostsWithoutKey(config);
  if (compiled.kind === "ok" && unsealable.length === 0) return compiled.policy;
  const problems = [...(compiled.kind === "ok" ? [] : compiled.problems), ...unsealable];
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

/** A forwarder can name any number of callers. */
const MAX_TAGS = 1024;

/** The answers to `GET /v1/hosts`. Tags are kept for each caller, the lists are not: a list of 10,000 hosts has 2 MB. */
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
      // A client has to revalidate its copy each time, because a freeze must take effect.
      "cache-control": "private, no-cache",
      ...(body === null ? {} : { "content-type": "application/json" }),
    },
  });
}

/** While the signer runs, a text is compiled in slices: thousands of hosts must not keep requests waiting. */
export type ConfigFile = ReturnType<typeof openConfigFile>;

export function openConfigFile(path: string, ports: SnapshotPorts) {
  const read = () => readConfigText(path, "signer config");
  const parse = (text: string, previous?: SignerConfig) =>
    finishInSlices(parseSignerConfig(text, path, previous), ports.clock);
  return {
    read,
    /** @throws {AppError} `invalid_config` */
    parse,
    /** @param previous the snapshot in force, whose parts are kept if their settings are the same */
    async compile(text: string, previous?: Snapshot): Promise<Snapshot> {
      // At the start no request waits.
      if (previous === undefined) return await loadSnapshot(finish(parseSignerConfig(text, path)), ports);
      return await loadSnapshot(await parse(text, previous.config), ports, previous);
    },
    /** Replaces the expected text; false if the file has another one by now, or an operator's program is editing it. */
    async replace(expected: string, text: string): Promise<boolean> {
      using lock = await tryLockFile(path);
      if (lock === undefined || await read() !== expected) return false;
      await replaceConfigFile(path, text);
      return true;
    },
  };
}

/**
 * Replaces a config file, whole or not at all, durable when it resolves; its mode stays. The new file has a fixed name, so
 * that the process needs no right to anything else in the directory.
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
    // The directory is out of this process's reach; syncing the file commits its rename with it.
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
