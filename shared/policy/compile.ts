// Checks the policy config as a whole and compiles it. All errors are found here, so no decision about a
// request can fail.
import { finish, type Steps } from "../clock.ts";
import { formatKeyPath, isUnsafe, quoteText } from "../text.ts";
import {
  type CommandLibrary,
  compileCommandLibrary,
  compileCommandPolicy,
  compilePattern,
  composePolicies,
  isRestricting,
  type Pattern,
  type PolicySet,
} from "./command.ts";
import { compileCluster, type CompiledCluster } from "./compile_cluster.ts";
import {
  type CallerPolicy,
  type HostPolicy,
  MAX_TTL_SECONDS,
  type PolicyConfig,
  SHIM_COMMAND,
} from "./model.ts";
import { findUnsharedPrincipals } from "./warnings.ts";
import { isIP, isIPv4 } from "node:net";
import { ENVELOPE_DOMAIN, type EnvelopeFormat } from "../envelope/mod.ts";
import { AppError } from "../errors.ts";
import { parsePublicKey } from "../ssh/keys.ts";
import { isSudoUser } from "./shell.ts";

/** One row of the compiled callers table. */
export interface CompiledCaller extends CallerPolicy {
  readonly groups: ReadonlySet<string>;
}

/** A compiled policy. It is immutable, and a change replaces it as a whole. */
export interface CompiledPolicy {
  readonly hosts: ReadonlyMap<string, CompiledHost>;
  /** Clusters by name. A cluster and a host cannot have the same name. */
  readonly clusters: ReadonlyMap<string, CompiledCluster>;
  /** Empty: no restriction by groups. The row `_default` is for every caller without a row. */
  readonly callers: ReadonlyMap<string, CompiledCaller>;
  /** The maximum lifetime for hosts without their own maximum, in seconds. */
  readonly maxTtlSeconds: number;
  /** The source config, from which the next policy reuses unchanged parts. */
  readonly config: PolicyConfig;
  /** Every compiled pattern by its source, for reuse by the next policy. */
  readonly patterns: ReadonlyMap<string, Pattern>;
}

type PolicyCompilation =
  | { readonly kind: "ok"; readonly policy: CompiledPolicy }
  /** Every problem, each with the path of its key. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** The maximum lifetime of a certificate if the config has none, in seconds. */
const DEFAULT_TTL_SECONDS = 300;

/**
 * Checks and compiles a policy. If there is any problem, nothing is compiled.
 *
 * @param previous the policy to replace. Its patterns are reused, because compiling them is most of the work,
 * and so are hosts that are the same object in both configs
 */
export function compilePolicy(config: PolicyConfig, previous?: CompiledPolicy): PolicyCompilation {
  return finish(compilePolicySteps(config, previous));
}

/** The problems that {@linkcode compilePolicy} finds. */
export function findPolicyProblems(config: PolicyConfig): readonly string[] {
  const compiled = compilePolicy(config);
  return compiled.kind === "ok" ? [] : compiled.problems;
}

/** {@linkcode compilePolicy} in steps, for a service that answers requests in the meantime. */
export function* compilePolicySteps(
  config: PolicyConfig,
  previous?: CompiledPolicy,
): Steps<PolicyCompilation> {
  const problems: string[] = [];
  const patterns = new Map<string, Pattern>();
  const compile = (source: string): Pattern => {
    // A pattern has no state, so policies can share it.
    const pattern = patterns.get(source) ?? previous?.patterns.get(source) ?? compilePattern(source);
    patterns.set(source, pattern);
    return pattern;
  };
  checkTtl(config.max_ttl_seconds, "max_ttl_seconds", problems);
  const maxTtlSeconds = config.max_ttl_seconds || DEFAULT_TTL_SECONDS;
  const library = yield* compileCommandLibrary(config, problems, compile);
  const hosts = new Map<string, CompiledHost>();
  const isSame = previous !== undefined && (yield* isSameForHosts(config, previous.config));
  for (const [name, host] of Object.entries(config.hosts)) {
    const path = formatKeyPath(["hosts", name]);
    const known = isSame && previous.config.hosts[name] === host ? previous.hosts.get(name) : undefined;
    // Compile a host with its own rules again. If it were reused, the next policy would not have its
    // patterns.
    const reused = host.command_policy === undefined ? known : undefined;
    if (reused === undefined) {
      problems.push(...findHostProblems(name, host, path));
      checkTtl(host.max_ttl_seconds ?? 0, `${path}.max_ttl_seconds`, problems);
    }
    checkJump(name, config, problems);
    hosts.set(name, reused ?? compileHost({ name, host, path, library, maxTtlSeconds }, problems));
    yield;
  }
  const clusters = new Map<string, CompiledCluster>();
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    const path = formatKeyPath(["kubernetes", "clusters", name]);
    if (Object.hasOwn(config.hosts, name)) problems.push(`${path}: there is a host of this name`);
    clusters.set(name, compileCluster({ name, cluster, path, compile }, problems));
    yield;
  }
  problems.push(...yield* findUnsharedPrincipals(config.hosts));
  if (problems.length > 0) return { kind: "invalid", problems };
  const callers = new Map(
    Object.entries(config.callers)
      .map(([cn, caller]) => [cn, { ...caller, groups: new Set(caller.allowed_groups) }]),
  );
  return { kind: "ok", policy: { hosts, clusters, callers, maxTtlSeconds, config, patterns } };
}

/** Whether everything that the compilation of a host depends on, except the host itself, is unchanged. */
function* isSameForHosts(config: PolicyConfig, previous: PolicyConfig): Steps<boolean> {
  const write = ({ group_command_policies, max_ttl_seconds, command_policies }: PolicyConfig) =>
    JSON.stringify([group_command_policies, max_ttl_seconds, Object.keys(command_policies)]);
  if (write(config) !== write(previous)) return false;
  for (const [name, policy] of Object.entries(config.command_policies)) {
    yield;
    const known = previous.command_policies[name];
    if (policy !== known && JSON.stringify(policy) !== JSON.stringify(known)) return false;
  }
  return true;
}

function checkTtl(seconds: number, path: string, problems: string[]): void {
  if (Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_TTL_SECONDS) return;
  problems.push(`${path}: ${seconds} is not between 0 and ${MAX_TTL_SECONDS}`);
}

function checkJump(name: string, { hosts }: PolicyConfig, problems: string[]): void {
  const path = formatKeyPath(["hosts", name, "jump"]);
  const chain = [name];
  let jump = hosts[name]?.jump ?? "";
  if (jump !== "" && !Object.hasOwn(hosts, jump)) problems.push(`${path}: unknown host ${quoteText(jump)}`);
  // A cycle is reported for the hosts in it, not for those that lead to it.
  while (jump !== "" && Object.hasOwn(hosts, jump) && !chain.includes(jump)) {
    chain.push(jump);
    jump = hosts[jump]?.jump ?? "";
  }
  if (jump !== "" && jump === name) {
    problems.push(`${path}: the chain never ends, ${[...chain, name].map(quoteText).join(" -> ")}`);
  }
}

// Checks and compiles one host of the policy.

/** A compiled host: its keys, with resolved groups, maximum lifetime, seal and command policies. */
export interface CompiledHost extends HostPolicy {
  readonly name: string;
  readonly principal: string;
  readonly maxTtlSeconds: number;
  readonly groups: readonly string[];
  /** `undefined`: the host is not sealed. */
  readonly seal: {
    /** The force-command of session certificates: the shim and the host's name. */
    readonly forceCommand: string;
    readonly format: EnvelopeFormat;
  } | undefined;
  readonly commands: PolicySet;
}

/** Finds the faults of a host's own keys, each with its key path. */
function findHostProblems(name: string, host: HostPolicy, path: string): readonly string[] {
  const sudoUsers = host.allowed_sudo_users ?? [];
  const faults: readonly (readonly [key: string, fault: string | false | undefined])[] = [
    ["", (name === "" || isUnsafe(name)) && "a host name must not be empty or contain spaces"],
    [".addr", host.addr !== "" && findAddrFault(host.addr)],
    [".user", (host.user === "" || isUnsafe(host.user)) && "is empty or contains spaces"],
    [".host_key", host.host_key !== "" && findHostKeyFault(host.host_key)],
    [".principal", findPrincipalFault(host.principal ?? "")],
    // The name is part of a force-command, which the account's shell reads, and of every envelope.
    ["", host.sealed_exec === true && !SEALABLE_NAME.test(name) && UNSEALABLE_NAME],
    [
      ".envelope_domain",
      host.envelope_domain !== undefined && host.envelope !== "v1" && "belongs to envelope v1 alone",
    ],
    [".source_address", !!host.source_address && findSourceAddressFault(host.source_address)],
    ...sudoUsers.map((user, index) =>
      [
        `.allowed_sudo_users[${index}]`,
        !isSudoUser(user) && `${quoteText(user)} is not an account name`,
      ] as const
    ),
  ];
  return faults.flatMap(([key, fault]) => typeof fault === "string" ? [`${path}${key}: ${fault}`] : []);
}

const SEALABLE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const UNSEALABLE_NAME =
  "the name of a sealed host has 1 to 64 letters, digits and . _ -, and begins with a letter or digit";

/** sshd splits lists at commas (`principals="…"` of authorized_keys), and a star matches all principals. */
function findPrincipalFault(principal: string): string | undefined {
  if (isUnsafe(principal)) return "contains spaces or control characters";
  return /[,*]/.test(principal)
    ? "contains a comma or a star: a certificate has exactly one principal"
    : undefined;
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

const ADDR = /^(?:\[(?<v6>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9._-]+)):(?<port>\d{1,5})$/;

/** Finds the fault of a host's `host:port` (an IPv6 address in brackets). */
export function findAddrFault(addr: string): string | undefined {
  const { v6, port } = ADDR.exec(addr)?.groups ?? {};
  if (port === undefined || (v6 !== undefined && isIP(v6) !== 6)) {
    return `${quoteText(addr)} is not host:port`;
  }
  const number = Number(port);
  return number >= 1 && number <= 65535 ? undefined : `port ${port} is not between 1 and 65535`;
}

/** Finds the fault of a `source-address` list. sshd rejects every certificate with a list that it cannot read. */
export function findSourceAddressFault(list: string): string | undefined {
  for (const entry of list.split(",")) {
    const fault = findCidrFault(entry);
    if (fault !== undefined) return `${quoteText(entry)} ${fault}`;
  }
  return undefined;
}

function findCidrFault(entry: string): string | undefined {
  const [address = "", prefix, ...rest] = entry.split("/");
  if (isIP(address) === 0 || address.includes("%") || rest.length > 0) {
    return "is not an address or CIDR block";
  }
  if (prefix === undefined) return undefined;
  const size = isIPv4(address) ? 32 : 128;
  if (!/^\d{1,3}$/.test(prefix) || Number(prefix) > size) return `has no prefix length between 0 and ${size}`;
  const hostBits = BigInt(size) - BigInt(prefix);
  return addressValue(address) % (1n << hostBits) === 0n ? undefined : "has bits set behind its prefix";
}

// `ipaddr.js` (2.5.0) is not used. It would save seven lines, but it reads `::1.2.3.4` as `::ffff:1.2.3.4`,
// and accepts more addresses (`0x7f.1`, `010.0.0.0`, a zone), so `isIP` would still be necessary.
function addressValue(address: string): bigint {
  if (isIPv4(address)) return address.split(".").reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  // URL writes every IPv6 address in hexadecimal groups, with at most one `::`.
  const [left = [], right = []] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return groups.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

/** Whether each command of a session needs a separate certificate. */
export function needsOwnCertificates({ unsealed_sessions, seal, commands }: CompiledHost): boolean {
  return unsealed_sessions === false && seal === undefined && commands.restricts;
}

/** Compiles a host; appends the faults of its command policies to `problems`. */
function compileHost(
  { name, host, path, library, maxTtlSeconds }: {
    readonly name: string;
    readonly host: HostPolicy;
    readonly path: string;
    readonly library: CommandLibrary;
    readonly maxTtlSeconds: number;
  },
  problems: string[],
): CompiledHost {
  let commands = library.compose(host.groups ?? []);
  if (host.command_policy !== undefined) {
    const inlinePath = `${path}.command_policy`;
    const inline = compileCommandPolicy(host.command_policy, inlinePath, problems, library.compile);
    if (isRestricting(inline)) commands = composePolicies([...commands.members, inline]);
  }
  if (host.allow_as_bastion === true && commands.restricts) {
    problems.push(`${path}.allow_as_bastion: a host with command rules cannot be a bastion`);
  }
  return {
    ...host,
    name,
    principal: host.principal ?? "",
    maxTtlSeconds: host.max_ttl_seconds || maxTtlSeconds,
    groups: host.groups ?? [],
    seal: host.sealed_exec === true
      ? {
        forceCommand: `${host.shim_command ?? SHIM_COMMAND} ${name}`,
        format: host.envelope === "v1"
          ? { version: "v1", domain: host.envelope_domain ?? ENVELOPE_DOMAIN }
          : { version: host.envelope ?? "v2" },
      }
      : undefined,
    commands,
  };
}
