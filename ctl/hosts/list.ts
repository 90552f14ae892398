import * as z from "@zod/zod";
import { describeSharedPrincipals, findLoginShellRisk } from "@gateway/shared/policy";
import { finish } from "@gateway/shared/clock";
import { hostKrl } from "@gateway/shared/wire";
import { loadSignerHosts } from "../kit/signer_file.ts";
import { listing } from "../kit/signer_change.ts";
import { byName, EMPTY_CELL, formatTable, joinNames } from "../kit/table.ts";

const text = z.string().optional();
const flag = z.boolean().optional();
const strings = z.array(z.string()).readonly().nullish();

const commandPolicy = z.object({
  mode: text,
  enforcement: text,
  allow: strings,
  deny: strings,
  require_approval: strings,
  shell_parse: z.boolean().nullish(),
});

/** A host of the answer to `GET /v1/policy/hosts`; keys of a newer signer are ignored. */
const hostSummary = z.object({
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
  command_policy: commandPolicy.nullish(),
});

type HostSummary = z.infer<typeof hostSummary>;
type Hosts = readonly (readonly [name: string, host: HostSummary])[];

export const LIST = listing({
  summary: "List the hosts of the signer's config, or of the running signer.",
  help: `
Examples:
  broker-ctl host list --config /etc/gateway/signer.json
  broker-ctl host list --remote
  broker-ctl host list --remote --json

Without --remote it reads the signer's config; with it, it asks the running signer, whose policy may be another.
POLICY is the host's own; broker-ctl policy explain shows those of its groups too. A terminal too narrow for the
table gets a paragraph for each host; --json has all of a long list of names.
`,
  local: async (config, workingFolder) => (await loadSignerHosts(config, workingFolder)).hosts,
  format: formatHosts,
  question: {
    what: "host list",
    method: "GET",
    path: "/v1/policy/hosts",
    schema: z.record(z.string(), hostSummary),
  },
  formatRemote: formatHosts,
});

const HEADING =
  "NAME ADDR USER PRINCIPAL TTL JUMP SRC_ADDR SUDO SUDO_USERS PTY FT BASTION GROUPS CALLERS POLICY";

/** All hosts as a table for so many columns, sorted by name, and notes: the columns of the table are fixed. */
export function formatHosts(
  hosts: Readonly<Record<string, HostSummary>>,
  columns: number | undefined,
): readonly string[] {
  const sorted = byName(hosts);
  if (sorted.length === 0) return ["(no hosts configured)"];
  const rows = sorted.map(([name, host]) => formatHost(name, host));
  return [
    ...formatTable(HEADING.split(" "), rows, columns),
    ...namesBy(sorted, (host) => host.sealed_exec === true ? host.envelope ?? "v2" : undefined)
      .map(([format, names]) => `sealed, envelope ${format}: ${names}`),
    ...finish(describeSharedPrincipals(hosts)),
    ...namesBy(sorted, ({ login_shell }) => login_shell).map(([shell, names]) =>
      `login shell ${shell} of ${names}: ${findLoginShellRisk(shell) ?? "command rules are proved for it"}`
    ),
    ...sorted.flatMap(([name, { krl }]) =>
      krl === undefined ? [] : [`revocation list of ${name}: ${describeKrl(krl)}`]
    ),
  ];
}

/** The names of the hosts that share a property. */
function namesBy(hosts: Hosts, propertyOf: (host: HostSummary) => string | undefined) {
  const groups = Map.groupBy(hosts, ([, host]) => propertyOf(host));
  return [...groups].flatMap(([property, members]) =>
    property === undefined ? [] : [[property, joinNames(members.map(([name]) => name))] as const]
  );
}

function describeKrl({ version, current, age_seconds: age }: z.infer<typeof hostKrl>): string {
  if (version === undefined) return "not asked for since the signer's start";
  return `version ${version}, ${current ? "in force" : "BEHIND"}, asked ${age ?? "?"} s ago`;
}

function formatHost(name: string, host: HostSummary): readonly string[] {
  const yesOrNo = (value: boolean | undefined) => value === true ? "yes" : "no";
  return [
    name,
    host.addr,
    host.user,
    host.principal || EMPTY_CELL,
    `${host.max_ttl_seconds ?? 0}s`,
    host.jump || EMPTY_CELL,
    host.source_address || EMPTY_CELL,
    yesOrNo(host.allow_sudo),
    joinNames(host.allowed_sudo_users),
    yesOrNo(host.allow_pty),
    yesOrNo(host.allow_file_transfer),
    yesOrNo(host.allow_as_bastion),
    joinNames(host.groups),
    joinNames(host.allowed_callers),
    labelPolicy(host.command_policy ?? undefined),
  ];
}

/** A host's own command policy in two words: `allowlist(3 allow)`, `approval(1) audit`; a dash for none. */
export function labelPolicy(policy: z.infer<typeof commandPolicy> | undefined): string {
  if (policy === undefined) return EMPTY_CELL;
  const { mode = "", allow, deny, require_approval: approval, enforcement } = policy;
  const approvals = approval?.length ?? 0;
  const labels: Readonly<Record<string, string>> = {
    allowlist: `allowlist(${allow?.length ?? 0} allow)`,
    denylist: `denylist(${deny?.length ?? 0} deny)`,
    off: approvals > 0 ? `off+approval(${approvals})` : "off",
    "": approvals > 0 ? `approval(${approvals})` : "",
  };
  const label = Object.hasOwn(labels, mode) ? labels[mode] : "?";
  if (label === "?" || !label) return label || EMPTY_CELL;
  return label + (enforcement === "audit" ? " audit" : "");
}
