import * as z from "@zod/zod";
import { describeSharedPrincipals, findLoginShellRisk } from "@gateway/shared/policy";
import { finish } from "@gateway/shared/clock";
import { EMPTY_CELL, formatTable, joinNames } from "../kit/table.ts";
import { type HostKrl, hostKrl } from "@gateway/shared/wire";

/** A command policy as far as a label tells of it. */
export interface PolicySummary {
  readonly mode?: string | undefined;
  readonly enforcement?: string | undefined;
  readonly allow?: readonly string[] | null | undefined;
  readonly deny?: readonly string[] | null | undefined;
  readonly require_approval?: readonly string[] | null | undefined;
  readonly shell_parse?: boolean | null | undefined;
}

/** A host as far as the table tells of it; what a newer signer adds is passed over. */
interface HostSummary {
  readonly addr: string;
  readonly user: string;
  readonly principal?: string | undefined;
  readonly max_ttl_seconds?: number | undefined;
  readonly jump?: string | undefined;
  readonly source_address?: string | undefined;
  readonly allow_sudo?: boolean | undefined;
  readonly allowed_sudo_users?: readonly string[] | null | undefined;
  readonly allow_pty?: boolean | undefined;
  readonly allow_file_transfer?: boolean | undefined;
  readonly allow_as_bastion?: boolean | undefined;
  readonly login_shell?: string | undefined;
  readonly sealed_exec?: boolean | undefined;
  readonly envelope?: string | undefined;
  readonly krl?: HostKrl | undefined;
  readonly groups?: readonly string[] | null | undefined;
  readonly allowed_callers?: readonly string[] | null | undefined;
  readonly command_policy?: PolicySummary | null | undefined;
}

const text = z.string().optional();
const flag = z.boolean().optional();
const strings = z.array(z.string()).nullish();

/** Decodes the answer to `GET /v1/policy/hosts`. */
export const hostSummaries: z.ZodType<Readonly<Record<string, HostSummary>>> = z.record(
  z.string(),
  z.object({
    addr: z.string(),
    user: z.string(),
    principal: text,
    max_ttl_seconds: z.int().optional(),
    jump: text,
    source_address: text,
    allow_sudo: flag,
    allowed_sudo_users: strings,
    allow_pty: flag,
    allow_file_transfer: flag,
    allow_as_bastion: flag,
    login_shell: text,
    sealed_exec: flag,
    envelope: text,
    krl: hostKrl.optional(),
    groups: strings,
    allowed_callers: strings,
    command_policy: z.object({
      mode: text,
      enforcement: text,
      allow: strings,
      deny: strings,
      require_approval: strings,
      shell_parse: z.boolean().nullish(),
    }).nullish(),
  }),
);

const HEADING =
  "NAME ADDR USER PRINCIPAL TTL JUMP SRC_ADDR SUDO SUDO_USERS PTY FT BASTION GROUPS CALLERS POLICY";

/** All hosts as a table for so many columns, sorted by name. */
export function formatHosts(
  hosts: Readonly<Record<string, HostSummary>>,
  columns: number | undefined,
): readonly string[] {
  const names = Object.keys(hosts).sort();
  if (names.length === 0) return ["(no hosts configured)"];
  const rows = names.flatMap((name) => {
    const host = hosts[name];
    return host === undefined ? [] : [formatHost(name, host)];
  });
  return [
    ...formatTable(HEADING.split(" "), rows, columns),
    ...sealNotes(names, hosts),
    ...finish(describeSharedPrincipals(hosts)),
    ...shellNotes(names, hosts),
    ...krlNotes(names, hosts),
  ];
}

/** One line for each format of envelopes: the table's columns are fixed. */
function sealNotes(
  names: readonly string[],
  hosts: Readonly<Record<string, HostSummary>>,
): readonly string[] {
  const sealed = Map.groupBy(
    names.filter((name) => hosts[name]?.sealed_exec === true),
    (name) => hosts[name]?.envelope ?? "v2",
  );
  return [...sealed].map(([format, named]) => `sealed, envelope ${format}: ${joinNames(named)}`);
}

/** One line for each host that fetches the revocation list. */
function krlNotes(
  names: readonly string[],
  hosts: Readonly<Record<string, HostSummary>>,
): readonly string[] {
  return names.flatMap((name) => {
    const krl = hosts[name]?.krl;
    if (krl === undefined) return [];
    if (krl.version === undefined) {
      return [`revocation list of ${name}: not asked for since the signer's start`];
    }
    const state = krl.current ? "in force" : "BEHIND";
    return [
      `revocation list of ${name}: version ${krl.version}, ${state}, asked ${krl.age_seconds ?? "?"} s ago`,
    ];
  });
}

/** One line for each login shell that the config names: the table's columns are fixed. */
function shellNotes(
  names: readonly string[],
  hosts: Readonly<Record<string, HostSummary>>,
): readonly string[] {
  const users = Map.groupBy(
    names.filter((name) => hosts[name]?.login_shell !== undefined),
    (name) => hosts[name]?.login_shell ?? "",
  );
  return [...users].map(([shell, named]) =>
    `login shell ${shell} of ${joinNames(named)}: ${
      findLoginShellRisk(shell) ?? "command rules are proved for it"
    }`
  );
}

function formatHost(name: string, host: HostSummary): readonly string[] {
  return [
    name,
    host.addr,
    host.user,
    host.principal || EMPTY_CELL,
    `${host.max_ttl_seconds ?? 0}s`,
    host.jump || EMPTY_CELL,
    host.source_address || EMPTY_CELL,
    yesOrNo(host.allow_sudo),
    join(host.allowed_sudo_users),
    yesOrNo(host.allow_pty),
    yesOrNo(host.allow_file_transfer),
    yesOrNo(host.allow_as_bastion),
    join(host.groups),
    join(host.allowed_callers),
    labelPolicy(host.command_policy ?? undefined),
  ];
}

/** A host's own command policy in two words: `allowlist(3 allow)`, `approval(1) audit`; a dash for none. */
export function labelPolicy(policy: PolicySummary | undefined): string {
  if (policy === undefined) return EMPTY_CELL;
  const { mode = "", allow, deny, require_approval: approval, enforcement } = policy;
  const approvals = approval?.length ?? 0;
  const audit = enforcement === "audit" ? " audit" : "";
  switch (mode) {
    case "allowlist":
      return `allowlist(${allow?.length ?? 0} allow)${audit}`;
    case "denylist":
      return `denylist(${deny?.length ?? 0} deny)${audit}`;
    case "off":
      return (approvals > 0 ? `off+approval(${approvals})` : "off") + audit;
    case "":
      return approvals > 0 ? `approval(${approvals})${audit}` : EMPTY_CELL;
    default:
      return "?";
  }
}

function yesOrNo(value: boolean | undefined): string {
  return value === true ? "yes" : "no";
}

function join(list: readonly string[] | null | undefined): string {
  return list === null || list === undefined || list.length === 0 ? EMPTY_CELL : joinNames(list);
}
