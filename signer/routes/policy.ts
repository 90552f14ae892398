import type { AuditEntry } from "@gateway/shared/audit";
import { appendToList, removeFromList, setValue } from "@gateway/shared/config";
import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { compilePattern, type HostPolicy } from "@gateway/shared/policy";
import { isUnsafe, quoteText } from "@gateway/shared/text";
import {
  formatTimestamp,
  type HostKrl,
  MAX_POLICY_BODY_BYTES,
  type PolicyRequest,
  policyRequest,
} from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { SignerConfig } from "../config/config.ts";
import { type PolicySource, readDocument, writeDocument } from "../live/policy.ts";
import { digestOf, type PolicyChange, type PolicyVersions } from "../live/state/postgres.ts";
import type { Authority, Call } from "../sign/authority.ts";
import { answer, readAdminBody, requireAdmin } from "./admin.ts";

/** A signer that needs longer to prepare a change decides nothing until it is ready: the change does not wait for it. */
const PREPARE_MS = 5_000;

const LOOK_MS = 20;

const patternBody: z.ZodType<{ readonly pattern: string }> = z.object({ pattern: z.string().min(1) });

/** What is done to a host's list of allow patterns. */
type AllowEdit = "add" | "remove";

/** `POST` and `DELETE /v1/policy/hosts/{host}/allow`: one allow pattern more or less, in force and in the file. */
export async function handleAllowEdit(
  authority: Authority,
  call: Call<"host">,
  edit: AllowEdit,
): Promise<Response> {
  const { peer } = call;
  const host = call.param("host");
  const command = `policy-allow-${edit}`;
  const denied = { command, outcome: "policy-denied" };
  const { pattern } = await readAdminBody(authority, call, denied, patternBody);
  const { policySource } = authority;
  if (policySource.from === "file" && authority.instances.isShared) {
    const err =
      "several signers share the state, and each has a config file of its own: edit and reload them all, or have the " +
      'hosts in the database: policy_source "database"';
    await authority.gate.bestEffort({ caller: peer.caller, command, outcome: "policy-failed", err });
    throw new AppError("conflict", err);
  }
  const entry = {
    caller: peer.caller,
    host: isUnsafe(host) ? "" : host,
    command,
    policy_rule: `allow:${pattern}`,
  };
  try {
    checkPattern(pattern);
    if (policySource.from === "database") {
      const base = requireNewest(policySource);
      const { hosts } = await policySource.parse(base.document);
      const document = edited(base.document, { host, policy: hostOf({ hosts }, host), pattern, edit });
      const change = `${edit} ${host} ${pattern}`;
      const made = await changePolicy(authority, { base, document, by: peer.caller, change, entry });
      return answer({ status: "ok", host, ...made });
    }
    const snapshot = await authority.state.apply(async () => {
      const text = await authority.configFile.read();
      // What the file says counts, not what is in force: it may have been edited since it was loaded.
      const policy = hostOf(await authority.configFile.parse(text), host);
      const changed = edited(text, { host, policy, pattern, edit });
      return {
        snapshot: await authority.configFile.compile(changed, authority.state.current),
        entry: { ...entry, outcome: "policy-changed" },
        async persist() {
          if (await authority.configFile.replace(text, changed)) return true;
          const err = "the file has changed meanwhile: the change is made on what it says now";
          await authority.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
          return false;
        },
      };
    });
    return answer({ status: "ok", host, hosts: snapshot.policy.hosts.size });
  } catch (error) {
    const err = error instanceof AppError ? error.message : "the change failed";
    await authority.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
    throw error;
  }
}

/** `GET /v1/policy/hosts`: the hosts as configured, internal fields included; by direct admins only. */
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

/** The version of the revocation list that each host of the config has installed. */
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

function hostOf({ hosts }: Pick<SignerConfig, "hosts">, name: string): HostPolicy {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  if (host === undefined) throw new AppError("not_found", `unknown host: ${quoteText(name)}`);
  return host;
}

function checkPattern(pattern: string): void {
  try {
    compilePattern(pattern);
  } catch (cause) {
    throw new AppError("invalid_request", `invalid regex: ${errorText(cause)}`, { cause });
  }
}

interface AllowChange {
  readonly host: string;
  readonly policy: HostPolicy;
  readonly pattern: string;
  readonly edit: AllowEdit;
}

/** The config's text after the change; comments, order and whatever else is in it stay. */
function edited(text: string, { host, policy, pattern, edit }: AllowChange): string {
  const { allow = [], mode = "" } = policy.command_policy ?? {};
  const path = ["hosts", host, "command_policy"];
  const isPresent = allow.includes(pattern);
  if (edit === "remove") {
    if (!isPresent) throw new AppError("conflict", `no change: pattern not present on ${quoteText(host)}`);
    return removeFromList(text, [...path, "allow"], pattern);
  }
  if (isPresent) throw new AppError("conflict", `no change: pattern already present on ${quoteText(host)}`);
  const longer = appendToList(text, [...path, "allow"], pattern);
  // The first rule turns the host into an allowlist; on a denylist it fails to build.
  return mode === "" || mode === "off" ? setValue(longer, [...path, "mode"], "allowlist") : longer;
}

/** `GET /v1/policy/versions`: who changed the hosts in the database when, the newest first. */
export async function handlePolicyVersions(authority: Authority, { peer }: Call): Promise<Response> {
  const command = "policy-versions-read";
  await requireAdmin(authority, peer, { command, outcome: "policy-read-denied" });
  const versions = await requireVersions(authority).list();
  await authority.gate.require({ caller: peer.caller, command, outcome: "policy-read" });
  return answer(versions.map(describe));
}

/** `GET /v1/policy/versions/{version}`: the hosts of one version. */
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

/** `POST /v1/policy/versions`: other hosts, or those of an earlier version, in the place of the newest version's. */
export async function handlePolicyChange(authority: Authority, call: Call): Promise<Response> {
  const { caller } = call.peer;
  const denied = { command: "policy-change", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, policyRequest, MAX_POLICY_BODY_BYTES);
  const isRollback = body.from_version !== undefined;
  const change = isRollback ? `rollback to ${body.from_version}` : "import";
  const entry = { caller, command: `policy-${change.replaceAll(" ", "-")}`, dry_run: body.dry_run };
  try {
    const versions = requireVersions(authority);
    const document = await documentOf(versions, body);
    const base = findBase(authority, body.base_version);
    if (body.dry_run) {
      const { policy } = await authority.policySource.compile(document, authority.state.current);
      await authority.gate.require({ ...entry, outcome: "policy-read" });
      return answer({ status: "dry_run", version: body.base_version + 1, hosts: policy.hosts.size });
    }
    const made = await changePolicy(authority, { base, document, by: caller, change, entry });
    return answer({ status: "ok", ...made });
  } catch (error) {
    const err = error instanceof AppError ? error.message : "the change failed";
    await authority.gate.bestEffort({ ...entry, outcome: "policy-failed", err });
    // It is the request that can't be used.
    if (error instanceof AppError && error.code === "invalid_config") {
      throw new AppError("invalid_request", err, { cause: error });
    }
    throw error;
  }
}

async function documentOf(versions: PolicyVersions, { hosts, from_version }: PolicyRequest): Promise<string> {
  if (hosts !== undefined && from_version === undefined) return writeDocument(hosts);
  if (hosts !== undefined || from_version === undefined) {
    throw new AppError("invalid_request", "one of hosts and from_version is needed");
  }
  return (await findVersion(versions, from_version)).document;
}

/** What the change is made on, as far as this signer knows; the database has the last word. */
function findBase({ policySource: { from, newest } }: Authority, version: number) {
  if ((newest?.version ?? 0) !== version) {
    throw new AppError(
      "conflict",
      `the newest version of the policy is ${
        newest?.version ?? 0
      } and not ${version}: look at it and try again`,
    );
  }
  if (from === "file" && newest !== undefined) {
    throw new AppError(
      "conflict",
      'policy_source of this signer is "file": set it to "database" at all signers first',
    );
  }
  return newest;
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
    throw new AppError("conflict", `version ${version} of the policy can't be read: it was made by hand`, {
      cause,
    });
  }
}

function readNumber(name: string): number {
  if (/^[1-9]\d{0,14}$/.test(name)) return Number(name);
  throw new AppError("invalid_request", "a version is a number from 1");
}

function describe({ version, madeBy, change, madeAt }: PolicyChange) {
  return { version, made_at: formatTimestamp(madeAt), made_by: madeBy, change };
}

/** The newest version as a signer knows it. */
type Newest = NonNullable<PolicySource["newest"]>;

/** A change of the hosts in the database. */
interface PolicyEdit {
  /** What it was made on; `undefined`: there is none. */
  readonly base: Newest | undefined;
  readonly document: string;
  readonly by: string;
  /** What is done, for the history. */
  readonly change: string;
  /** The record of it, without outcome. */
  readonly entry: Omit<AuditEntry, "outcome">;
}

interface MadeChange {
  readonly version: number;
  /** How many hosts there are now. */
  readonly hosts: number;
}

/** @throws {AppError} `conflict` when the database has no hosts yet */
function requireNewest({ newest }: PolicySource): Newest {
  if (newest !== undefined) return newest;
  throw new AppError("conflict", "the database has no hosts yet: broker-ctl policy import");
}

/**
 * Makes a version of the hosts, whole or not at all, and puts it in force at every signer. The record is durable before
 * the version is there.
 *
 * @throws {AppError} `invalid_config` when the hosts can't be used, `conflict` when another version came first,
 * `audit_unavailable`: nothing has changed then; `state_stale` where it is not certain that it is in force
 */
async function changePolicy(
  authority: Authority,
  { base, document, by, change, entry }: PolicyEdit,
): Promise<MadeChange> {
  const { policySource, instances, gate, clock, state } = authority;
  const { versions } = policySource;
  if (versions === undefined) {
    throw new AppError("conflict", "the hosts are in the config file, which has no versions");
  }
  const { policy } = await policySource.prepare(document, state.current);
  if (policySource.from === "database" && instances.isShared) {
    await prepareElsewhere(versions, { document, sha256: digestOf(document), clock });
  }
  const version = (base?.version ?? 0) + 1;
  const made = { version, hosts: policy.hosts.size };
  await gate.require({ ...entry, policy_version: version, outcome: "policy-changed" });
  if (!await versions.add({ base, document, madeBy: by, change, madeAt: clock.now() })) {
    throw changedMeanwhile();
  }
  await Promise.all([instances.caughtUp(), instances.settled()]);
  if (policySource.from === "file") return made;
  // It may also be that another one came after it, and is in force already.
  const inForce = state.current.policyVersion?.version ?? 0;
  if (inForce >= version && policySource.problemOf(state.current) === undefined) return made;
  throw new AppError(
    "state_stale",
    `version ${version} of the policy is made, and not in force at this signer yet`,
    {
      retryAfterSeconds: 1,
    },
  );
}

/**
 * Waits until the other signers can put a document in force at once, or for as long as is sensible.
 *
 * @throws {AppError} `conflict` when somebody else's change came between
 */
export async function prepareElsewhere(
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
    "the policy was changed meanwhile, by somebody else: nothing is changed; look at the newest version and try again",
  );
}
