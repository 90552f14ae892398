import type { Command } from "commander";
import { collectBytes, quoteText } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import { MAX_TTL_SECONDS } from "@gateway/shared/policy";
import { fingerprint, parsePublicKey } from "@gateway/shared/ssh";
import type { SignerConfig } from "@gateway/signer/config";
import { countOf, once, repeated } from "../kit/arguments.ts";
import { describeOutOfReach } from "./broker_reach.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { type Fields, writeFields } from "../kit/entries.ts";
import { type HostFlags, readHostFields } from "./fields.ts";
import { HintedError } from "../kit/output.ts";
import { isPlainName } from "../kit/addresses.ts";
import { scanHostKey } from "./scan_host_key.ts";
import {
  addChangeOptions,
  addRemove,
  CHANGE_HELP,
  type ChangeFlags,
  changeUses,
  type DescribedChange,
  requireEntry,
  runChange,
  type SignerChange,
} from "../kit/signer_change.ts";

interface AddFlags extends HostFlags, ChangeFlags {
  readonly name: string;
  readonly hostKey?: string;
  readonly scan?: boolean;
  readonly newKey?: string;
  readonly force?: boolean;
}

const DEFAULT_TTL_SECONDS = 120;
const MAX_KEY_BYTES = 64 * 1024;

const ADD_EXAMPLES = `
Examples:
  broker-ctl host add --name web02 --addr 10.0.0.6:22 --user deploy --groups local --scan --reload
  ssh ann@10.0.0.6 cat /etc/ssh/ssh_host_ed25519_key.pub |
      broker-ctl host add --name web02 --addr 10.0.0.6:22 --user deploy --groups local --host-key -
  broker-ctl host add --name web02 --force --sudo --allow '^systemctl restart nginx$' --dry-run
  broker-ctl host add --name web02 --force --sudo=false --jump ''

--force changes a host that is there, by what is given alone; '' clears a field, and a list takes the place of the old
one. Separate the values of a list with commas, or repeat the flag; a comma in braces, parentheses or a class is part
of its pattern. --scan takes the key that the network shows: compare its fingerprint. Where
the config has another key for the host, it takes the scanned one only with --new-key and its fingerprint, as the host
itself shows it (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub): it could be that of somebody in between.
A new host gets "unsealed_sessions": false: with command rules and without a seal, each command of its sessions needs a
certificate. Then the host has to be enrolled: it must trust the CA, and let its principal in (broker-ctl init prints how).
${CHANGE_HELP}`;

const REMOVE_EXAMPLES = `
Examples:
  broker-ctl host remove web02 --reload
  broker-ctl host remove web02 --dry-run

Sessions that are open on it end at their next command. The host itself trusts the CA until that is taken out there.
${CHANGE_HELP}`;

export const addHostChanges: AddCommand = (host, context) => {
  const switchOf = (flag: string) => `--${flag} [true|false]`;
  addChangeOptions(host.command("add"))
    .description("Add a host to the signer's config, or change one.")
    .requiredOption("--name <name>", "its name for agents and rules", once)
    .option("--addr <addr>", "host:port", once)
    .option("--user <account>", "the account on the host", once)
    .option("--host-key <key>", "its public key, one line; - reads it from standard input", once)
    .option("--scan", "ask the host itself for its key")
    .option("--new-key <fingerprint>", "with --scan: the key that it must be, SHA256:…", once)
    .option("--principal <text>", "of the certificate (default: host:<name>)", once)
    .option(
      "--ttl <seconds>",
      `cap of a certificate's life (default: ${DEFAULT_TTL_SECONDS})`,
      countOf(0, MAX_TTL_SECONDS),
    )
    .option("--jump <host>", "the bastion in front of it", once)
    .option("--source-address <addr>", "where the certificate may be used from", once)
    .option(switchOf("sudo"), "commands may ask for sudo")
    .option("--sudo-users <accounts>", "the accounts that sudo may change to", repeated)
    .option(switchOf("pty"), "sessions may have a terminal")
    .option("--groups <groups>", "groups for access control and policies", repeated)
    .option(switchOf("file-transfer"), "files may be read and written")
    .option("--callers <cns>", "the callers that may use it (default: any of its groups)", repeated)
    .option(switchOf("bastion"), "may be used as a hop to another host")
    .option("--policy-mode <mode>", "off, allowlist or denylist", once)
    .option("--policy-enforcement <how>", "enforce or audit", once)
    .option("--allow <patterns>", "RE2 patterns of allowed commands, separated by commas", repeated)
    .option("--deny <patterns>", "RE2 patterns of denied commands, separated by commas", repeated)
    .option(
      "--require-approval <patterns>",
      "RE2 patterns of commands that need an approval, separated by commas",
      repeated,
    )
    .option(switchOf("shell-parse"), "false: patterns match the whole text")
    .option("--force", "change a host that is there")
    .addHelpText("after", ADD_EXAMPLES)
    .action((flags: AddFlags, command) =>
      context.run(command, ["programs", ...changeUses(flags)], () => add(flags, command, context))
    );
  addRemove(host, context, {
    ...{ what: "host", argument: "<name>", aliases: ["rm", "del"], help: REMOVE_EXAMPLES, path: ["hosts"] },
    check: ({ hosts }, name) => requireEntry(hosts, "host", name),
  });
};

async function add(flags: AddFlags, command: Command, context: CommandContext) {
  const key = await readKey(flags);
  const fields = readHostFields(flags, key?.line);
  return await runChange(command, context, addition(flags, fields, key));
}

function addition(
  { name, force = false, newKey }: AddFlags,
  fields: Fields,
  key: GivenKey | undefined,
): SignerChange {
  let isNew = true;
  return {
    edit(text, { hosts }) {
      isNew = !Object.hasOwn(hosts, name);
      if (!isNew && !force) {
        throw new AppError("conflict", `Cannot add host ${quoteText(name)}: it is there; --force changes it`);
      }
      if (isNew) requireFields(name, fields);
      else if (newKey === undefined) refuseOtherKey(name, hosts[name]?.host_key, key);
      const defaults = { principal: `host:${name}`, max_ttl_seconds: DEFAULT_TTL_SECONDS };
      return writeFields(
        text,
        { path: ["hosts", name], isNew },
        isNew ? { ...withDefaults(fields, defaults), unsealed_sessions: false } : fields,
      );
    },
    describe: (config, file) => describeAdded(config, { name, isNew, file, note: key?.note }),
  };
}

/** Flags speak before defaults; one that is empty says that the field is to be absent. */
function withDefaults(fields: Fields, defaults: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, value ?? defaults[key]]));
}

function requireFields(name: string, { addr, user, host_key: key }: Fields): void {
  if (!isPlainName(name)) {
    const may = "the name of a new host may hold letters, digits, dots, dashes and underscores";
    throw new AppError("invalid_request", `Cannot add host ${quoteText(name)}: ${may}`);
  }
  const missing = [
    ...(addr ? [] : ["--addr"]),
    ...(user ? [] : ["--user"]),
    ...(key ? [] : ["one of --host-key and --scan"]),
  ];
  if (missing.length === 0) return;
  throw new AppError("invalid_request", `A new host needs ${missing.join(", ")}`);
}

async function describeAdded(
  config: SignerConfig,
  { name, isNew, file, note }: {
    readonly name: string;
    readonly isNew: boolean;
    readonly file: string;
    readonly note: string | undefined;
  },
): Promise<DescribedChange> {
  const host = config.hosts[name];
  if (host === undefined) throw new TypeError("the host that was written is not there");
  const { addr, user, principal = "", groups = [], jump = "" } = host;
  const rows = Object.values(config.callers);
  const isSeen = rows.length === 0 ||
    rows.some(({ allowed_groups = [] }) => groups.some((group) => allowed_groups.includes(group)));
  const unreached = jump === "" ? await describeOutOfReach(file, addr) : [];
  return {
    json: { name, added: isNew, host, ...(note !== undefined && { scanned: note }), unreached },
    lines: [
      `host ${quoteText(name)} ${
        isNew ? "added" : "updated"
      } (addr=${addr}, user=${user}, principal=${principal})`,
      ...(note === undefined ? [] : [note]),
      ...(isSeen ? [] : ["none of the config's callers may use it: it has none of their groups (--groups)"]),
      ...unreached,
    ],
  };
}

/** The key that the flags give, and what to say of it. */
interface GivenKey {
  readonly line: string;
  /** Of one that the network shows. */
  readonly fingerprint?: string;
  readonly note?: string;
}

/** Whoever stands between would be believed from then on. */
function refuseOtherKey(name: string, former: string | undefined, key: GivenKey | undefined): void {
  if (former === undefined || former === "" || key?.fingerprint === undefined) return;
  const known = fingerprint(parsePublicKey(former).blob);
  if (known === key.fingerprint) return;
  throw new HintedError(
    new AppError(
      "conflict",
      `The network shows the key ${key.fingerprint} for host ${
        quoteText(name)
      }, the config has ${known}: somebody may stand in between`,
    ),
    `look at the key on the host itself; if it is new there: --new-key and its fingerprint`,
  );
}

async function readKey(
  { hostKey, scan = false, newKey, addr }: AddFlags,
): Promise<GivenKey | undefined> {
  if (newKey !== undefined && !scan) {
    throw new AppError("invalid_request", "Option '--new-key' means nothing without --scan");
  }
  if (hostKey !== undefined && scan) {
    throw new AppError("invalid_request", "Options '--host-key' and '--scan' exclude each other");
  }
  if (scan) {
    if (addr === undefined) throw new AppError("invalid_request", "Option '--scan' needs --addr");
    const { line, fingerprint } = await scanHostKey(addr);
    if (newKey !== undefined && newKey !== fingerprint) {
      throw new AppError("conflict", `The network shows the key ${fingerprint}, not ${quoteText(newKey)}`);
    }
    return {
      line,
      fingerprint,
      note: `its key is ${fingerprint}, as the network shows it: compare it with the host's own`,
    };
  }
  if (hostKey !== "-") return hostKey === undefined ? undefined : { line: hostKey.trim() };
  const bytes = await collectBytes(Deno.stdin.readable, MAX_KEY_BYTES);
  if (bytes === undefined) {
    throw new AppError("invalid_request", `The key has more than ${MAX_KEY_BYTES} bytes`);
  }
  return { line: new TextDecoder().decode(bytes).trim() };
}
