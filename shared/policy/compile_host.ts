// One host of the policy: its checks and its compiled form.
import { isIP, isIPv4 } from "node:net";
import { isUnsafe, quoteText } from "../text.ts";
import { ENVELOPE_DOMAIN, type EnvelopeFormat } from "../envelope/mod.ts";
import { AppError } from "../errors.ts";
import { parsePublicKey } from "../ssh/keys.ts";
import {
  type CommandLibrary,
  compileCommandPolicy,
  composePolicies,
  isRestricting,
  type PolicySet,
} from "./command.ts";
import { type HostPolicy, SHIM_COMMAND } from "./model.ts";
import { isSudoUser } from "./shell.ts";

/** A host ready to decide: its keys, with resolved groups, cap, seal and command policies. */
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
export function findHostProblems(name: string, host: HostPolicy, path: string): readonly string[] {
  const sudoUsers = host.allowed_sudo_users ?? [];
  const faults: readonly (readonly [key: string, fault: string | false | undefined])[] = [
    ["", (name === "" || isUnsafe(name)) && "a host name must not be empty or contain blanks"],
    [".addr", host.addr !== "" && findAddrFault(host.addr)],
    [".user", (host.user === "" || isUnsafe(host.user)) && "is empty or contains blanks"],
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
  if (isUnsafe(principal)) return "contains blanks or control characters";
  return /[,*]/.test(principal) ? "contains a comma or a star: a certificate has one principal" : undefined;
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

// Not `ipaddr.js` (2.5.0): it would save seven lines, but reads `::1.2.3.4` as `::ffff:1.2.3.4`, and accepts more
// addresses (`0x7f.1`, `010.0.0.0`, a zone), so `isIP` would have to stay.
function addressValue(address: string): bigint {
  if (isIPv4(address)) return address.split(".").reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
  // URL writes every IPv6 address in hexadecimal groups, with at most one `::`.
  const [left = [], right = []] = new URL(`http://[${address}]/`).hostname.slice(1, -1).split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return groups.reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n);
}

/** Whether each command of a session needs a certificate of its own. */
export function needsOwnCertificates({ unsealed_sessions, seal, commands }: CompiledHost): boolean {
  return unsealed_sessions === false && seal === undefined && commands.restricts;
}

/** Compiles a host; appends the faults of its command policies to `problems`. */
export function compileHost(
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
