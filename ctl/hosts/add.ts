import type { BrokerConfig } from "@gateway/broker/config";
import { AppError } from "@gateway/shared/errors";
import { isInNetwork } from "@gateway/shared/permissions";
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";
import { fingerprint, formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { collectBytes, quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { APPROVALS_OPTION } from "../approvers/approver.ts";
import { isPlainName } from "../kit/values.ts";
import { count, type Given, named, repeat } from "../kit/command.ts";
import { CONFIG_KINDS, type HostConfig, loadHosts, loadNeighbor } from "../kit/signer_file.ts";
import { type Fields, splitNames, splitPatterns, writeFields } from "../kit/entries.ts";
import { formatWarnings, lintChangedHost } from "../kit/lint_warnings.ts";
import { conflict, ignoreAppError, invalid } from "../kit/output.ts";
import {
  addition,
  changing,
  type Collection,
  hasUser,
  managing,
  type Removal,
  requireEntry,
} from "../kit/signer_change.ts";
import { runToEnd } from "../kit/programs.ts";

export type Host = SignerConfig["hosts"][string];

export const HOSTS: Collection<Host> = { what: "host", path: ["hosts"], of: ({ hosts }) => hosts };

export function hostOf(config: Pick<SignerConfig, "hosts">, name: string): Host {
  return requireEntry(HOSTS.what, config.hosts, name);
}

const DEFAULT_TTL_SECONDS = 120;
const MAX_KEY_BYTES = 64 * 1024;

const FIELDS = {
  "--name <name>": named("host name for agents and rules"),
  "--addr <addr>": "host:port",
  "--user <account>": "account on the host",
  "--host-key <key>": "public host key, one line; - reads standard input",
  "--scan": "get the host key from the network",
  "--new-key <fingerprint>": "with --scan: expected fingerprint, SHA256:…",
  "--principal <text>": "principal of certificates (default: host:<name>)",
  "--ttl <seconds>": count(
    `maximum certificate lifetime (default: ${DEFAULT_TTL_SECONDS})`,
    0,
    MAX_TTL_SECONDS,
  ),
  "--jump <host>": "bastion in front of the host",
  "--source-address <addr>": "address or CIDR that may use the certificate",
  "--sudo [true|false]": "allow sudo",
  "--sudo-users <accounts>": repeat("accounts that sudo may change to"),
  "--pty [true|false]": "allow terminals",
  "--groups <groups>": repeat("groups for access control and policies"),
  "--file-transfer [true|false]": "allow file transfer",
  "--callers <cns>": repeat("callers that may use the host (default: any caller of its groups)"),
  "--bastion [true|false]": "allow use as a bastion",
  "--policy-mode <mode>": "off, allowlist or denylist",
  "--policy-enforcement <how>": "enforce or audit",
  "--allow <patterns>": repeat("RE2 patterns of allowed commands, separated by commas"),
  "--deny <patterns>": repeat("RE2 patterns of denied commands, separated by commas"),
  ...APPROVALS_OPTION,
  "--require-approval <patterns>": repeat("RE2 patterns of commands that need approval, separated by commas"),
  "--shell-parse [true|false]": "false: match patterns against the whole text",
  "--force": "change an existing host",
};

const ADD = changing({
  name: "add",
  summary: "Add or change a host in the signer's config.",
  takes: FIELDS,
  help: `
Examples:
  broker-ctl host add web02 --addr 10.0.0.6:22 --user deploy --groups local --scan --reload
  ssh ann@10.0.0.6 cat /etc/ssh/ssh_host_ed25519_key.pub |
      broker-ctl host add web02 --addr 10.0.0.6:22 --user deploy --groups local --host-key -
  broker-ctl host edit web02 --sudo --allow '^systemctl restart nginx$' --dry-run

--force changes only the given fields of an existing host. '' clears a field; a list replaces the previous list.
Separate the values of a list with commas, or repeat the option. A comma in braces, parentheses or a class belongs to
its pattern. --scan trusts the key that the network shows, which can be an attacker's: compare the fingerprint with the
output of ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub on the host. If the config has another key for the host,
--scan needs --new-key and that fingerprint. A new host gets "unsealed_sessions": false: if it has command rules and no
seal, each command of a session needs a certificate. Next step: broker-ctl host enroll.
`,
  uses: ["programs"],
  acceptsLocal: true,
  // The config of a local installation has neither key.
  change: (given, _call, isLocal) =>
    changeHost(given, isLocal ? {} : { max_ttl_seconds: DEFAULT_TTL_SECONDS, unsealed_sessions: false }),
});

async function changeHost(given: Given<typeof FIELDS>, { unsealed_sessions, ...more }: Fields) {
  const { name, newKey } = given;
  const key = await readKey(given);
  const fields = readFields(given, key?.line);
  let before: HostConfig;
  return addition(HOSTS, given, {
    edit(text, there, config) {
      before = config;
      const path = ["hosts", name];
      if (there === undefined) {
        requireFields(name, fields);
        const defaults: Fields = { principal: `host:${name}`, ...more };
        // A flag that is empty keeps its field absent.
        const filled = Object.entries(fields).map(([key, value]) => [key, value ?? defaults[key]]);
        const isNew = true;
        return writeFields(text, { path, isNew }, {
          ...Object.fromEntries(filled),
          ...unsealed_sessions !== undefined && { unsealed_sessions },
        });
      }
      if (newKey === undefined) refuseOtherKey(name, there.host_key, key);
      return writeFields(text, { path, isNew: false }, fields);
    },
    async describe(host, config, file) {
      const { addr, user, principal = "", jump = "" } = host;
      const note = key?.note;
      const unreached = jump === "" ? await describeOutOfReach(file, addr) : [];
      const findings = lintChangedHost(name, before, config);
      return {
        json: { host, ...(note !== undefined && { scanned: note }), unreached, findings },
        facts: `addr=${addr}, user=${user}, principal=${principal}`,
        lines: [
          ...(note === undefined ? [] : [note]),
          ...(hasUser(config, host)
            ? []
            : ["No caller in the config can use it: it has none of their groups (--groups)."]),
          ...unreached,
          ...formatWarnings(findings),
        ],
      };
    },
  });
}

const REMOVE: Removal = {
  acceptsLocal: true,
  argument: ["<name>", "host name"],
  aliases: ["del"],
  help: `
Examples:
  broker-ctl host remove web02 --reload
  broker-ctl host remove web02 --dry-run

Open sessions on the host end at their next command. The host itself still trusts the CA: run broker-ctl host unenroll
first.
`,
};

export const CHANGE_HOSTS = managing(HOSTS, ADD, REMOVE, loadHosts);

/**
 * The fields in flags, by the keys of the config. An absent flag keeps its field, an empty one clears it.
 */
function readFields(flags: Given<typeof FIELDS>, hostKey: string | undefined): Fields {
  const policy = {
    mode: flags.policyMode,
    enforcement: flags.policyEnforcement,
    allow: splitPatterns(flags.allow, "--allow"),
    deny: splitPatterns(flags.deny, "--deny"),
    require_approval: splitPatterns(flags.requireApproval, "--require-approval"),
    shell_parse: readSwitch(flags.shellParse, "--shell-parse"),
  };
  const { addr, user, principal, ttl: max_ttl_seconds, jump, sourceAddress: source_address } = flags;
  return {
    ...{ addr, user, host_key: hostKey, principal, max_ttl_seconds, jump, source_address },
    approvals_required: flags.approvals,
    allow_sudo: readSwitch(flags.sudo, "--sudo"),
    allowed_sudo_users: splitNames(flags.sudoUsers),
    allow_pty: readSwitch(flags.pty, "--pty"),
    allow_file_transfer: readSwitch(flags.fileTransfer, "--file-transfer"),
    allow_as_bastion: readSwitch(flags.bastion, "--bastion"),
    groups: splitNames(flags.groups),
    allowed_callers: splitNames(flags.callers),
    command_policy: Object.values(policy).every((value) => value === undefined) ? undefined : policy,
  };
}

function readSwitch(value: true | string | undefined, flag: string): boolean | undefined {
  if (value === undefined || value === true) return value;
  if (value === "true" || value === "false") return value === "true";
  throw invalid(`Cannot use ${flag}=${value}: expected ${flag}, ${flag}=true or ${flag}=false`);
}

function requireFields(name: string, { addr, user, host_key: key }: Fields): void {
  if (!isPlainName(name)) {
    const may = "expected letters, digits, dots, dashes and underscores";
    throw invalid(`Cannot add host ${quoteText(name)}: ${may}`);
  }
  const missing = [
    ...(addr ? [] : ["--addr"]),
    ...(user ? [] : ["--user"]),
    ...(key ? [] : ["--host-key or --scan"]),
  ];
  if (missing.length > 0) throw invalid(`Cannot add host ${quoteText(name)}: pass ${missing.join(", ")}`);
}

/** The key in the flags, or from the network; only the latter has a fingerprint. */
interface GivenKey {
  readonly line: string;
  readonly fingerprint?: string;
  readonly note?: string;
}

/**
 * Rejects a host key that differs from the known one. Otherwise, an attacker in the middle would be trusted
 * permanently.
 */
function refuseOtherKey(name: string, former: string | undefined, key: GivenKey | undefined): void {
  if (former === undefined || former === "" || key?.fingerprint === undefined) return;
  const known = fingerprint(parsePublicKey(former).blob);
  if (known === key.fingerprint) return;
  const problem = `Cannot use the scanned key ${key.fingerprint} of host ${quoteText(name)}`;
  const fix = `check the key on the host; if it has changed, pass --new-key ${key.fingerprint}`;
  throw conflict(`${problem}: the config has ${known}, so it may be an attacker's key`, undefined, fix);
}

async function readKey({ hostKey, scan = false, newKey, addr }: Given<typeof FIELDS>) {
  if (newKey !== undefined && !scan) throw invalid("Option '--new-key' has no effect without --scan");
  if (hostKey !== undefined && scan) throw invalid("Cannot use --host-key with --scan: pass one of them");
  if (scan) {
    if (addr === undefined) throw invalid("Option '--scan' needs --addr");
    const { line, fingerprint } = await scanHostKey(addr);
    if (newKey !== undefined && newKey !== fingerprint) {
      throw conflict(`The scanned key is ${fingerprint}, not ${quoteText(newKey)}`);
    }
    const note = `Scanned host key: ${fingerprint}. Compare it with the key on the host.`;
    return { line, fingerprint, note };
  }
  if (hostKey !== "-") return hostKey === undefined ? undefined : { line: hostKey.trim() };
  const bytes = await collectBytes(Deno.stdin.readable, MAX_KEY_BYTES);
  if (bytes === undefined) throw invalid(`Cannot use the key: it has more than ${MAX_KEY_BYTES} bytes`);
  return { line: new TextDecoder().decode(bytes).trim() };
}

/** A line for each broker config in the signer's directory that does not permit connections to an address. */
async function describeOutOfReach(signerConfig: string, addr: string): Promise<readonly string[]> {
  const lines = ["config.json", "mcp.json"].map(async (name) => {
    const found = await loadNeighbor(signerConfig, name, CONFIG_KINDS.broker).catch(ignoreAppError);
    if (!found || reaches(found.config, addr)) return [];
    return [
      `the broker of ${quoteText(name)} may not connect to ${addr}: add "${addr}" to "networks" there, ` +
      "and start it again; a client's entry that lists permissions is renewed by broker-ctl permissions broker",
    ];
  });
  return (await Promise.all(lines)).flat();
}

function reaches({ signer, networks, api_servers }: BrokerConfig, addr: string): boolean {
  if (signer === undefined || (networks.length === 0 && api_servers.length === 0)) return true;
  return networks.some((network) => isInNetwork(addr, network));
}

const ADDRESS = /^(?:\[(?<v6>[0-9A-Fa-f:.]+)\]|(?<name>[A-Za-z0-9][A-Za-z0-9._-]*))(?::(?<port>\d{1,5}))?$/;
const TIMEOUT_SECONDS = 10;

/**
 * Requests a host's Ed25519 key with `ssh-keyscan`. An attacker in the network can return another key.
 *
 * @param addr `host:port`; an IPv6 address is in brackets
 */
export async function scanHostKey(addr: string) {
  const { v6, name, port = "22" } = ADDRESS.exec(addr)?.groups ?? {};
  const host = v6 ?? name;
  if (host === undefined) throw invalid(`Cannot scan ${quoteText(addr)}: expected host:port`);
  const args = ["-T", String(TIMEOUT_SECONDS), "-p", port, "-t", "ed25519", "--", host];
  const { stdout, stderr } = await runToEnd("ssh-keyscan", args);
  const key = stdout.split("\n").map(readLine).find((key) => key !== undefined);
  if (key !== undefined) return key;
  const why = stderr.split("\n").findLast((line) => line !== "" && !line.startsWith("#"));
  const reason = why === undefined ? "" : ` (${why})`;
  throw new AppError("upstream_failure", `Cannot scan ${quoteText(addr)}: no Ed25519 host key${reason}`);
}

/** A line is the host's name, the algorithm and the key; comments begin with `#`. */
function readLine(line: string) {
  const [host = "", algorithm = "", key = ""] = line.split(" ");
  if (host.startsWith("#") || algorithm !== "ssh-ed25519") return undefined;
  try {
    const { blob } = parsePublicKey(`${algorithm} ${key}`);
    return { line: formatPublicKey(algorithm, blob).trim(), fingerprint: fingerprint(blob) };
  } catch {
    return undefined;
  }
}
