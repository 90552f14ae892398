import type { AuditEntry } from "@gateway/shared/audit";
import { appendToList, removeFromList, setValue } from "@gateway/shared/config";
import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText, staleError } from "@gateway/shared/errors";
import { compilePattern, type HostPolicy } from "@gateway/shared/policy";
import { isUnsafe, quoteText } from "@gateway/shared/text";
import { formatTimestamp, type HostKrl, MAX_POLICY_BODY_BYTES, policyRequest } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { SignerConfig } from "../config/config.ts";
import { readDocument, writeDocument } from "../live/policy.ts";
import { digestOf, type PolicyChange, type PolicyVersions } from "../live/state/postgres.ts";
import { namesOf } from "../config/snapshot.ts";
import type { Authority, Call } from "../sign/authority.ts";
import { answer, readAdminBody, requireAdmin } from "./admin.ts";

/**
 * The longest wait for other signers to prepare a change. A slower signer makes no decisions until it is
 * ready.
 */
const PREPARE_MS = 5_000;

const LOOK_MS = 20;

const patternBody: z.ZodType<{ readonly pattern: string }> = z.object({ pattern: z.string().min(1) });

/** The lists of a host's own policy. */
type PatternList = "allow" | "deny" | "require_approval";

/** The mode of a policy without a mode after its first pattern in the list. */
const FIRST_MODE: Readonly<Partial<Record<PatternList, string>>> = { allow: "allowlist", deny: "denylist" };

/**
 * `POST /v1/policy/hosts/{host}/allow`, `DELETE /v1/policy/hosts/{host}/allow`, `POST /v1/policy/hosts/{host}/deny`,
 * `DELETE /v1/policy/hosts/{host}/deny`, `POST /v1/policy/hosts/{host}/require_approval`,
 * `DELETE /v1/policy/hosts/{host}/require_approval`: adds or removes one pattern of a host, in force and in the config
 * file or database. Callers: `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if the pattern is no RE2 pattern
 * @throws {AppError} `not_found` if the host is unknown
 * @throws {AppError} `conflict` if nothing would change, the config changed meanwhile, or several signers have own files
 * @throws {AppError} `invalid_config` if the changed config is invalid; nothing was changed
 * @throws {AppError} `state_stale` if the change was stored, but is not in force at this signer yet
 */
export async function handlePatternEdit(
  authority: Authority,
  call: Call<"host">,
  list: PatternList,
  edit: "add" | "remove",
): Promise<Response> {
  const { policySource, configFile, gate, state } = authority;
  const { caller } = call.peer;
  const host = call.param("host");
  const command = `policy-${list}-${edit}`;
  const denied = { command, outcome: "policy-denied" };
  const { pattern } = await readAdminBody(authority, call, denied, patternBody);
  if (policySource.from === "file" && authority.instances.isShared) {
    const err =
      "several signers share the state, and each has its own config file: edit and reload all of them, or move the " +
      'hosts to the database (policy_source "database")';
    await gate.bestEffort({ caller, command, outcome: "policy-failed", err });
    throw new AppError("conflict", err);
  }
  const about = { host: isUnsafe(host) ? "" : host, ...namesOf(state.current, host) };
  const entry = { caller, ...about, command, policy_rule: `${list}:${pattern}` };
  const change = (text: string, config: SignerConfig) => {
    const policy = Object.hasOwn(config.hosts, host) ? config.hosts[host] : undefined;
    if (policy === undefined) throw new AppError("not_found", `unknown host: ${quoteText(host)}`);
    return edited(text, { host, policy, list, pattern, edit });
  };
  return await recordingFailure(authority, entry, async () => {
    checkPattern(pattern);
    if (policySource.from === "database") {
      const base = policySource.newest;
      if (base === undefined) {
        throw new AppError("conflict", "the database has no hosts yet: broker-ctl policy import");
      }
      const document = change(base.document, await policySource.parse(base.document));
      const made = {
        base,
        document,
        madeBy: caller,
        change: `${edit} ${host} ${list === "allow" ? "" : `${list} `}${pattern}`,
      };
      return answer({ status: "ok", host, ...await changePolicy(authority, made, entry) });
    }
    const snapshot = await state.apply(async () => {
      const text = await configFile.read();
      // Read the file instead of the config in force, because the file may have been edited since it was
      // loaded.
      const changed = change(text, await configFile.parse(text));
      return {
        snapshot: await configFile.compile(changed, state.current),
        entry: { ...entry, outcome: "policy-changed" },
        async persist() {
          if (await configFile.replace(text, changed)) return true;
          const err = "the file has changed in the meantime; the change is applied to its new content";
          await gate.bestEffort({ ...entry, outcome: "policy-failed", err });
          return false;
        },
      };
    });
    return answer({ status: "ok", host, hosts: snapshot.policy.hosts.size });
  });
}

async function recordingFailure<T>(
  { gate }: Authority,
  entry: Omit<AuditEntry, "outcome">,
  change: () => Promise<T>,
): Promise<T> {
  try {
    return await change();
  } catch (error) {
    const err = error instanceof AppError ? error.message : "the change failed";
    await gate.bestEffort({ ...entry, outcome: "policy-failed", err });
    throw error;
  }
}

function checkPattern(pattern: string): void {
  try {
    compilePattern(pattern);
  } catch (cause) {
    throw new AppError("invalid_request", `invalid regex: ${errorText(cause)}`, { cause });
  }
}

function edited(
  text: string,
  { host, policy, list, pattern, edit }: {
    readonly host: string;
    readonly policy: HostPolicy;
    readonly list: PatternList;
    readonly pattern: string;
    readonly edit: "add" | "remove";
  },
) {
  const { [list]: patterns = [], mode = "" } = policy.command_policy ?? {};
  const path = ["hosts", host, "command_policy"];
  if (patterns.includes(pattern) !== (edit === "remove")) {
    const state = edit === "remove" ? "not present" : "already present";
    throw new AppError("conflict", `no change: pattern ${state} on ${quoteText(host)}`);
  }
  if (edit === "remove") return removeFromList(text, [...path, list], pattern);
  const longer = appendToList(text, [...path, list], pattern);
  // The first allow pattern turns the host into an allowlist. On a denylist, the changed config fails to
  // compile.
  const first = FIRST_MODE[list];
  return first !== undefined && (mode === "" || mode === "off")
    ? setValue(longer, [...path, "mode"], first)
    : longer;
}

/** `GET /v1/policy/hosts`: lists all hosts as configured, by name, with `krl`. Callers: `reload_callers`. */
export async function handlePolicyRead(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "policy-hosts-read", outcome: "policy-read-denied" });
  const { hosts } = authority.state.current.config;
  const count = Object.keys(hosts).length;
  await authority.gate.require({
    caller: peer.caller,
    command: `policy-hosts-read hosts=${count}`,
    outcome: "policy-read",
  });
  const krl = installedLists(authority);
  return answer(
    Object.fromEntries(
      Object.entries(hosts).map(([name, host]) => [
        name,
        { principal: "", command_policy: {}, ...host, krl: krl.get(name) },
      ]),
    ),
  );
}

function installedLists({ state, krl, clock }: Authority): ReadonlyMap<string, HostKrl> {
  return new Map(
    Object.entries(state.current.config.krl_callers).flatMap(([caller, hosts]) => {
      const report = krl.reports.get(caller);
      const installed: HostKrl = report === undefined ? { current: false } : {
        version: report.version,
        age_seconds: Math.max(0, Math.floor((clock.now() - report.at) / 1000)),
        current: report.version === krl.current.version,
      };
      return hosts.map((host) => [host, installed] as const);
    }),
  );
}

/**
 * `GET /v1/policy/versions`: lists the versions of the hosts in the database, the newest first. Callers:
 * `reload_callers`.
 *
 * @throws {AppError} `conflict` if the hosts are in the config file
 */
export async function handlePolicyVersions(authority: Authority, { peer }: Call): Promise<Response> {
  const command = "policy-versions-read";
  await requireAdmin(authority, peer, { command, outcome: "policy-read-denied" });
  const versions = await requireVersions(authority).list();
  await authority.gate.require({ caller: peer.caller, command, outcome: "policy-read" });
  return answer(versions.map(describe));
}

/**
 * `GET /v1/policy/versions/{version}`: returns one version with its hosts. Callers: `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if the version is not a number from 1
 * @throws {AppError} `not_found` if the version does not exist
 * @throws {AppError} `conflict` if the hosts are in the config file, or the version cannot be read
 */
export async function handlePolicyVersion(
  authority: Authority,
  { peer, param }: Call<"version">,
): Promise<Response> {
  const command = "policy-version-read";
  await requireAdmin(authority, peer, { command, outcome: "policy-read-denied" });
  const found = await findVersion(requireVersions(authority), readNumber(param("version")));
  await authority.gate.require({
    caller: peer.caller,
    command: `${command} ${found.version}`,
    outcome: "policy-read",
  });
  return answer({ ...describe(found), hosts: readHosts(found) });
}

/**
 * `POST /v1/policy/versions`: replaces all hosts in the database by other hosts, or by those of an earlier version.
 * Callers: `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if the hosts are invalid, or not exactly one of `hosts` and `from_version` is set
 * @throws {AppError} `not_found` if `from_version` does not exist
 * @throws {AppError} `conflict` if `base_version` is not the newest version, or the hosts are in the config file
 * @throws {AppError} `state_stale` if the version was created, but is not in force at this signer yet
 */
export async function handlePolicyChange(authority: Authority, call: Call): Promise<Response> {
  const { caller } = call.peer;
  const denied = { command: "policy-change", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, policyRequest, MAX_POLICY_BODY_BYTES);
  const { hosts, from_version, base_version, dry_run } = body;
  const change = from_version === undefined ? "import" : `rollback to ${from_version}`;
  const entry = { caller, command: `policy-${change.replaceAll(" ", "-")}`, dry_run };
  try {
    return await recordingFailure(authority, entry, async () => {
      const versions = requireVersions(authority);
      if ((hosts === undefined) === (from_version === undefined)) {
        throw new AppError("invalid_request", "either hosts or from_version is required");
      }
      const document = from_version === undefined
        ? writeDocument(hosts)
        : (await findVersion(versions, from_version)).document;
      const base = findBase(authority, base_version);
      if (dry_run) {
        const { policy } = await authority.policySource.compile(document, authority.state.current);
        await authority.gate.require({ ...entry, outcome: "policy-read" });
        return answer({ status: "dry_run", version: base_version + 1, hosts: policy.hosts.size });
      }
      const made = await changePolicy(authority, { base, document, madeBy: caller, change }, entry);
      return answer({ status: "ok", ...made });
    });
  } catch (error) {
    if (error instanceof AppError && error.code === "invalid_config") {
      throw new AppError("invalid_request", error.message, { cause: error });
    }
    throw error;
  }
}

/**
 * The version that the change is based on, as far as this signer knows. The database makes the final check.
 */
function findBase({ policySource: { from, newest } }: Authority, version: number) {
  const known = newest?.version ?? 0;
  if (known !== version) {
    const problem = `the newest version of the policy is ${known}, not ${version}`;
    throw new AppError("conflict", `${problem}: read it and try again`);
  }
  if (from === "database" || newest === undefined) return newest;
  throw new AppError(
    "conflict",
    'policy_source of this signer is "file": set it to "database" at all signers first',
  );
}

function requireVersions({ policySource: { versions } }: Authority): PolicyVersions {
  if (versions !== undefined) return versions;
  throw new AppError("conflict", "the hosts are in the config file, which has no versions: edit it");
}

async function findVersion(versions: PolicyVersions, version: number) {
  const found = await versions.find(version);
  if (found === undefined) throw new AppError("not_found", `unknown version of the policy: ${version}`);
  return found;
}

function readHosts({ version, document }: { readonly version: number; readonly document: string }) {
  try {
    return readDocument(document);
  } catch (cause) {
    throw new AppError(
      "conflict",
      `version ${version} of the policy cannot be read: it was written manually`,
      {
        cause,
      },
    );
  }
}

function readNumber(name: string): number {
  if (/^[1-9]\d{0,14}$/.test(name)) return Number(name);
  throw new AppError("invalid_request", "a version is a number from 1");
}

function describe({ version, madeBy, change, madeAt }: PolicyChange) {
  return { version, made_at: formatTimestamp(madeAt), made_by: madeBy, change };
}

/**
 * Creates a version of the hosts atomically, and puts it in force at every signer. The record is durable
 * before the version exists.
 *
 * @param next.base the version that the change is based on; `undefined` if there is none
 * @returns the version and its number of hosts
 * @throws {AppError} `invalid_config` if the hosts cannot be used, `conflict` if another version came first,
 * `audit_unavailable`: nothing has changed then; `state_stale` if it is not certain that it is in force
 */
async function changePolicy(
  authority: Authority,
  next: Omit<Parameters<PolicyVersions["add"]>[0], "madeAt">,
  entry: Omit<AuditEntry, "outcome">,
): Promise<{ readonly version: number; readonly hosts: number }> {
  const { base, document } = next;
  const { policySource, instances, gate, clock, state } = authority;
  const versions = requireVersions(authority);
  const { policy } = await policySource.prepare(document, state.current);
  if (policySource.from === "database" && instances.isShared) {
    await prepareOtherInstances(versions, { document, sha256: digestOf(document), clock });
  }
  const version = (base?.version ?? 0) + 1;
  const made = { version, hosts: policy.hosts.size };
  await gate.require({ ...entry, policy_version: version, outcome: "policy-changed" });
  if (!await versions.add({ ...next, madeAt: clock.now() })) throw changedMeanwhile();
  await Promise.all([instances.caughtUp(), instances.settled()]);
  if (policySource.from === "file") return made;
  // A later version may already be in force.
  const inForce = state.current.policyVersion?.version ?? 0;
  if (inForce >= version && policySource.problemOf(state.current) === undefined) return made;
  throw staleError(`version ${version} of the policy was created, but is not in force at this signer yet`);
}

/**
 * Waits until the other signers can put a document in force immediately, for at most {@linkcode PREPARE_MS}.
 *
 * @throws {AppError} `conflict` if another change was made in the meantime
 */
export async function prepareOtherInstances(
  versions: PolicyVersions,
  { document, sha256, clock }: { readonly document: string; readonly sha256: string; readonly clock: Clock },
): Promise<void> {
  await versions.propose(document);
  for (let waited = 0; waited < PREPARE_MS; waited += LOOK_MS) {
    const prepared = await versions.findPrepared(sha256);
    if (prepared === "all") return;
    if (prepared === "replaced") throw changedMeanwhile();
    await clock.sleep(LOOK_MS);
  }
}

function changedMeanwhile(): AppError {
  return new AppError(
    "conflict",
    "the policy was changed by another request: nothing was changed; read the newest version and try again",
  );
}
