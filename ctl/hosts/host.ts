import type { SignerConfig } from "@gateway/signer/config";
import { type CommandGroup, oneOf } from "../kit/command.ts";
import { CHANGE_HOSTS, hostOf, HOSTS } from "./add.ts";
import { ENROLL, UNENROLL } from "./enroll.ts";
import { INSTALL_SHIM } from "./install_shim.ts";
import { KRL } from "./krl.ts";
import * as z from "@zod/zod";
import { describeSharedPrincipals, findLoginShellRisk } from "@gateway/shared/policy";
import { finish } from "@gateway/shared/clock";
import { each, hostKrl } from "@gateway/shared/wire";
import { loadHosts } from "../kit/signer_file.ts";
import { changing, listing } from "../kit/signer_change.ts";
import { byName, type Cell, EMPTY_CELL, joinNames, type Line } from "../kit/table.ts";
import { removeMember, setValue } from "@gateway/shared/config";
import { ENVELOPE_VERSIONS } from "@gateway/shared/envelope";
import type { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";

const text = z.string().optional();
const flag = z.boolean().optional();
const strings = z.array(z.string()).readonly().nullish();

const commandPolicy = z.object({
  ...each(text, "mode", "enforcement"),
  ...each(strings, "allow", "deny", "require_approval"),
  shell_parse: z.boolean().nullish(),
});

/** A host of the answer to `GET /v1/policy/hosts`; keys of a newer signer are ignored. */
const hostSummary = z.object({
  ...each(z.string(), "addr", "user"),
  ...each(text, "principal", "jump", "source_address", "login_shell", "envelope"),
  ...each(flag, "allow_sudo", "allow_pty", "allow_file_transfer", "allow_as_bastion", "sealed_exec"),
  ...each(strings, "allowed_sudo_users", "groups", "allowed_callers"),
  max_ttl_seconds: z.int().optional(),
  krl: hostKrl.optional(),
  command_policy: commandPolicy.nullish(),
});

type HostSummary = z.infer<typeof hostSummary>;

const LIST = listing(HOSTS, {
  summary: "List the hosts.",
  help: `
Examples:
  broker-ctl host list
  broker-ctl host list --remote

Lists the hosts in the signer's config, or with --remote those of the running signer, which can differ. POLICY is the
policies of the groups and the host's own policy; with --remote only the latter. SEALED is the envelope format. -o wide
shows all columns. --json does not shorten lists of names.
`,
  load: loadHosts,
  format: formatHosts,
  question: { method: "GET", path: "/v1/policy/hosts", schema: z.record(z.string(), hostSummary) },
  formatRemote: (hosts) => formatHosts(hosts),
});

type Library = Pick<SignerConfig, "command_policies" | "group_command_policies">;

const COLUMNS = [
  ..."NAME ADDR USER GROUPS POLICY SEALED REVOCATION".split(" "),
  ..."+PRINCIPAL +TTL +JUMP +SRC_ADDR +SUDO +SUDO_USERS +PTY +FT +BASTION +CALLERS +LOGIN_SHELL".split(" "),
];

/**
 * All hosts as a table, sorted by name, followed by notes.
 *
 * @param library the named policies, which only the config has
 */
export function formatHosts(
  hosts: Readonly<Record<string, HostSummary>>,
  library: Library = { command_policies: {}, group_command_policies: {} },
): readonly Line[] {
  const sorted = byName(hosts);
  const rows = sorted.map(([name, host]) => formatHost(name, host, library));
  return [
    { none: "(no hosts configured)", columns: COLUMNS, rows },
    ...finish(describeSharedPrincipals(hosts)),
    ...[...Map.groupBy(sorted, ([, { login_shell }]) => login_shell)].flatMap(([shell, members]) => {
      const risk = shell === undefined ? undefined : findLoginShellRisk(shell);
      const names = joinNames(members.map(([name]) => name));
      return risk === undefined ? [] : [`login shell ${shell} of ${names}: ${risk}`];
    }),
  ];
}

function describeKrl(krl: z.infer<typeof hostKrl> | undefined): Cell {
  if (krl === undefined) return { text: "" };
  const { version, current, age_seconds: age } = krl;
  if (version === undefined) {
    return { text: "not fetched", wide: "not fetched since the signer's start", role: "warn" };
  }
  const state = current ? "current" : "OUTDATED";
  return {
    text: state,
    wide: `${state}, version ${version}, last request ${age ?? "?"} s ago`,
    role: current ? "ok" : "bad",
  };
}

function formatHost(name: string, host: HostSummary, library: Library): readonly (string | Cell)[] {
  const yesOrNo = (value: boolean | undefined) => value === true ? "yes" : "no";
  const named = ["_default", ...host.groups ?? []].flatMap((group) =>
    library.group_command_policies[group] ?? []
  );
  const own = labelPolicy(host.command_policy ?? undefined);
  return [
    name,
    host.addr,
    host.user,
    joinNames(host.groups),
    [...new Set(named), ...own === EMPTY_CELL ? [] : [own]].join(","),
    host.sealed_exec === true ? host.envelope ?? "v2" : "",
    describeKrl(host.krl),
    host.principal ?? "",
    `${host.max_ttl_seconds ?? 0}s`,
    host.jump ?? "",
    host.source_address ?? "",
    yesOrNo(host.allow_sudo),
    joinNames(host.allowed_sudo_users),
    yesOrNo(host.allow_pty),
    yesOrNo(host.allow_file_transfer),
    yesOrNo(host.allow_as_bastion),
    joinNames(host.allowed_callers),
    host.login_shell ?? "",
  ];
}

/** A short label of a host's own command policy, such as `allowlist(3 allow)` or `approval(1) audit`; a dash for none. */
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

const NO_KEY = {
  when: ({ code, message }: AppError) => code === "invalid_config" && message.includes("needs envelope_key"),
  hint:
    'run (umask 077; head -c 32 /dev/urandom > pki/envelope.seed), then set "envelope_key": "pki/envelope.seed"',
};

const SEAL = changing({
  name: "seal",
  summary: "Require a signer signature for every session command.",
  takes: {
    "<name>": "host name",
    "--envelope <format>": oneOf(ENVELOPE_VERSIONS, "envelope version that the host's shim supports"),
    "--domain <text>": "with v1: envelope domain of another build's shim",
    "--shim <command>": "name or path of the shim on the host",
  },
  help: `
Examples:
  broker-ctl host seal web01
  broker-ctl host seal web01 --envelope v1 --domain other-product-v1 --shim other-shim

After the signer's next reload, only exec sessions are possible on the host, and they run only commands that the signer
has signed for that host. Install the shim first (broker-ctl host install-shim): without it, every session command
fails. A host that was never sealed gets v3, whose envelopes also bind standard input. To upgrade from v2: run
broker-ctl host install-shim (the new shim accepts v2 and v3), then host seal --envelope v3. v1 is for hosts with the
shim of another build, whose domain and name can differ.
`,
  advice: NO_KEY,
  change: ({ name, envelope: wanted, domain, shim }) => ({
    edit(text, config) {
      const host = hostOf(config, name);
      // Without sealed_exec, the host has no shim yet, so the newest version is the default. With sealed_exec
      // and without envelope, the host's shim supports v2, which stays.
      const envelope = wanted ??
        (host.sealed_exec === undefined && host.envelope === undefined ? "v3" : undefined);
      const values = { sealed_exec: true, envelope, envelope_domain: domain, shim_command: shim };
      const edited = Object.entries(values).reduce(
        (text, [key, value]) => value === undefined ? text : setValue(text, ["hosts", name, key], value),
        text,
      );
      // Only v1 has a domain: with the domain of the previous format, the config would be rejected.
      return envelope !== undefined && envelope !== "v1" && domain === undefined
        ? removeMember(edited, ["hosts", name, "envelope_domain"])
        : edited;
    },
    describe(config) {
      const { envelope: format = "v2", envelope_domain, shim_command } = hostOf(config, name);
      return {
        json: { name, sealed: true, envelope: format, envelope_domain, shim_command },
        lines: [
          `host ${quoteText(name)} sealed (envelope ${format})`,
          "Open exec sessions reconnect at their next command. Open shell and pty sessions stop accepting commands.",
        ],
      };
    },
  }),
});

const UNSEAL = changing({
  name: "unseal",
  summary: "Remove the seal from a host.",
  takes: { "<name>": "host name" },
  help: `
Examples:
  broker-ctl host unseal web01

After the signer's next reload, the host accepts session certificates that are not restricted to a command. The envelope
settings stay in the config for the next seal.
`,
  change({ name }) {
    let wasSealed = false;
    return {
      edit(text, config) {
        wasSealed = hostOf(config, name).sealed_exec === true;
        return wasSealed ? setValue(text, ["hosts", name, "sealed_exec"], false) : text;
      },
      describe: () => ({
        json: { name, sealed: false },
        lines: [`host ${quoteText(name)} ${wasSealed ? "unsealed" : "is not sealed; nothing was changed"}`],
      }),
    };
  },
});

/** `host`: the hosts, their permissions, and their seals. */
export const HOST: CommandGroup = {
  name: "host",
  summary: "Manage hosts.",
  commands: [LIST, ...CHANGE_HOSTS, ENROLL, UNENROLL, INSTALL_SHIM, SEAL, UNSEAL, KRL],
};
