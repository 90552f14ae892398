/**
 * One host of the policy: its checks and its compiled form.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findHostProblems } from "./compile_host.ts";
 *
 * const host = { addr: "10.0.0.1", user: "deploy", host_key: "ssh-rsa" };
 * const paths = findHostProblems("web01", host, "hosts.web01").map((problem) => problem.split(":")[0]);
 * assert.deepEqual(paths, ["hosts.web01.addr", "hosts.web01.host_key"]);
 * ```
 *
 * @module
 */
import { formatKeyPath, isUnsafe, quoteText } from "../text.ts";
import { ENVELOPE_DOMAIN, type EnvelopeFormat } from "../envelope/envelope.ts";
import { AppError } from "../errors.ts";
import { parsePublicKey } from "../ssh/public_key.ts";
import { findAddrFault, findSourceAddressFault } from "./address.ts";
import { composePolicies, isRestricting, type PolicySet } from "./command.ts";
import { type CommandLibrary, compileCommandPolicy } from "./compile_command.ts";
import { isSudoUser } from "./elevation.ts";
import { type HostPolicy, type PolicyConfig, SHIM_COMMAND } from "./model.ts";

/** A host ready to decide. Absent keys of the config are empty or false here. */
export interface CompiledHost {
  readonly name: string;
  readonly addr: string;
  readonly user: string;
  /** The pinned host key, an authorized_keys line. */
  readonly hostKey: string;
  /** Logical name of the bastion, empty for a direct host. */
  readonly jump: string;
  readonly principal: string;
  /** Address or CIDR that the certificate may be used from; empty: any. */
  readonly sourceAddress: string;
  /** The cap of a certificate's life, resolved: never 0. */
  readonly maxTtlSeconds: number;
  /** May be used as a hop to another host. */
  readonly allowAsBastion: boolean;
  /** Empty: any caller. */
  readonly allowedCallers: ReadonlySet<string>;
  readonly allowSudo: boolean;
  readonly allowedSudoUsers: ReadonlySet<string>;
  readonly allowPty: boolean;
  /** Files may be read and written. */
  readonly allowFileTransfer: boolean;
  /** Commands without a terminal end with their connection. */
  readonly stopOnDisconnect: boolean;
  /** Sessions get a certificate although the host has command rules and is not sealed. */
  readonly unsealedSessions: boolean;
  /** Sessions run nothing but what is in an envelope; `undefined`: the host does not ask for one. */
  readonly seal: HostSeal | undefined;
  /** In the order of the config. */
  readonly groups: readonly string[];
  /** All command policies that hold for the host. */
  readonly commands: PolicySet;
}

/** How the sessions of a host are sealed. */
export interface HostSeal {
  /** What the certificates of its sessions are locked to: the shim, and for which host it speaks. */
  readonly forceCommand: string;
  readonly format: EnvelopeFormat;
}

/** What {@linkcode compileHost} works on. */
interface HostSource {
  readonly name: string;
  readonly host: HostPolicy;
  /** The key path of the host, for problems. */
  readonly path: string;
  readonly library: CommandLibrary;
  readonly maxTtlSeconds: number;
}

/** What is wrong with a host's own keys, each problem with its key path. */
export function findHostProblems(name: string, host: HostPolicy, path: string): readonly string[] {
  const problems: string[] = [];
  const report = (key: string, fault: string | undefined) => {
    if (fault !== undefined) problems.push(`${path}${key}: ${fault}`);
  };
  report(
    "",
    name === "" || isUnsafe(name) ? "a host name must not be empty or contain blanks" : undefined,
  );
  report(".addr", host.addr === "" ? undefined : findAddrFault(host.addr));
  report(".user", host.user === "" || isUnsafe(host.user) ? "is empty or contains blanks" : undefined);
  report(".host_key", host.host_key === "" ? undefined : findHostKeyFault(host.host_key));
  report(".principal", findPrincipalFault(host.principal ?? ""));
  // It stands in a force-command, which the account's shell reads, and in every envelope.
  report("", host.sealed_exec === true && !SEALABLE_NAME.test(name) ? UNSEALABLE_NAME : undefined);
  report(
    ".envelope_domain",
    host.envelope_domain !== undefined && host.envelope !== "v1" ? "belongs to envelope v1 alone" : undefined,
  );
  const source = host.source_address ?? "";
  report(".source_address", source === "" ? undefined : findSourceAddressFault(source));
  for (const [index, user] of (host.allowed_sudo_users ?? []).entries()) {
    report(
      `.allowed_sudo_users[${index}]`,
      isSudoUser(user) ? undefined : `${quoteText(user)} is not an account name`,
    );
  }
  return problems;
}

/** A warning for each host that a broker cannot connect to, as the reference's example config has them. */
export function describeUnconnectable(hosts: PolicyConfig["hosts"]): readonly string[] {
  return Object.entries(hosts).flatMap(([name, host]) => {
    const missing = (["addr", "host_key"] as const).filter((key) => host[key] === "");
    if (missing.length === 0) return [];
    return [
      `${formatKeyPath(["hosts", name])}: no ${
        missing.join(" and no ")
      }: brokers list the host but cannot connect`,
    ];
  });
}

const SEALABLE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const UNSEALABLE_NAME =
  "the name of a sealed host has 1 to 64 letters, digits and . _ -, and begins with a letter or digit";

/** A comma makes two of one where sshd reads a list (`principals="…"` of authorized_keys), and a star matches all. */
function findPrincipalFault(principal: string): string | undefined {
  if (isUnsafe(principal)) return "contains blanks or control characters";
  return /[,*]/.test(principal) ? "contains a comma or a star: a certificate has one principal" : undefined;
}

/** Whether each command of a session needs a certificate of its own. */
export function needsOwnCertificates({ unsealedSessions, seal, commands }: CompiledHost): boolean {
  return !unsealedSessions && seal === undefined && commands.restricts;
}

/** Compiles a host; appends to `problems` what is wrong with its command policies. */
export function compileHost(source: HostSource, problems: string[]): CompiledHost {
  const { name, host, path } = source;
  const commands = composeCommands(source, problems);
  if (host.allow_as_bastion === true && commands.restricts) {
    problems.push(`${path}.allow_as_bastion: a host with command rules cannot be a bastion`);
  }
  const ownTtl = host.max_ttl_seconds ?? 0;
  return {
    name,
    addr: host.addr,
    user: host.user,
    hostKey: host.host_key,
    jump: host.jump ?? "",
    principal: host.principal ?? "",
    sourceAddress: host.source_address ?? "",
    maxTtlSeconds: ownTtl > 0 ? ownTtl : source.maxTtlSeconds,
    allowAsBastion: host.allow_as_bastion ?? false,
    allowedCallers: toSet(host.allowed_callers),
    allowSudo: host.allow_sudo ?? false,
    allowedSudoUsers: toSet(host.allowed_sudo_users),
    allowPty: host.allow_pty ?? false,
    allowFileTransfer: host.allow_file_transfer ?? false,
    stopOnDisconnect: host.stop_on_disconnect ?? false,
    unsealedSessions: host.unsealed_sessions ?? true,
    seal: compileSeal(name, host),
    groups: host.groups ?? [],
    commands,
  };
}

function compileSeal(name: string, host: HostPolicy): HostSeal | undefined {
  if (host.sealed_exec !== true) return undefined;
  return {
    forceCommand: `${host.shim_command ?? SHIM_COMMAND} ${name}`,
    format: host.envelope === "v1"
      ? { version: "v1", domain: host.envelope_domain ?? ENVELOPE_DOMAIN }
      : { version: host.envelope ?? "v2" },
  };
}

const NOBODY: ReadonlySet<string> = new Set();

/** Most hosts of a large config have no such list: an empty set for each would be a good part of its memory. */
function toSet(names: readonly string[] | undefined): ReadonlySet<string> {
  return names === undefined || names.length === 0 ? NOBODY : new Set(names);
}

function composeCommands({ host, path, library }: HostSource, problems: string[]): PolicySet {
  const names = new Set(
    ["_default", ...(host.groups ?? [])].flatMap((group) => library.groups.get(group) ?? []),
  );
  if (host.command_policy === undefined) return library.compose(names);
  const { members } = library.compose(names);
  const inline = compileCommandPolicy(
    host.command_policy,
    `${path}.command_policy`,
    problems,
    library.compile,
  );
  return isRestricting(inline) ? composePolicies([...members, inline]) : composePolicies(members);
}

function findHostKeyFault(line: string): string | undefined {
  try {
    parsePublicKey(line);
    return undefined;
  } catch (error) {
    if (error instanceof AppError) return error.message;
    throw error;
  }
}
