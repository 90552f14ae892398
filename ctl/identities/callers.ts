import { setValue } from "@gateway/shared/config";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type CommandGroup, named, oneOf, repeat, required } from "../kit/command.ts";
import { splitNames, writeFields } from "../kit/entries.ts";
import { addition, changing, type Collection, managing, type Removal } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL } from "../kit/table.ts";
import { conflict, invalid } from "../kit/output.ts";
import { isAbsolute } from "node:path";
import { CA_KEY_TYPES, type CaKeyConfig } from "@gateway/shared/ca";

const CALLERS_OF: Collection<SignerConfig["callers"][string]> = {
  what: "caller",
  path: ["callers"],
  of: ({ callers }) => callers,
};

const LIST = command({
  name: "list",
  summary: "List the callers of the signer's config.",
  async run({ config }, { workingFolder }) {
    const { callers } = await loadSignerFile(config, workingFolder);
    const rows = byName(callers).map(([name, { allowed_groups }]) => [
      name,
      allowed_groups?.join(",") || EMPTY_CELL,
    ]);
    const columns = ["NAME", "ALLOWED_GROUPS"];
    return { json: callers, lines: [{ none: "(no callers configured)", columns, rows }] };
  },
});

const ADD = changing({
  name: "add",
  summary: "Add or change a caller in the signer's config.",
  takes: {
    "--name <cn>": named("CN of the caller's certificate"),
    "--groups <groups>": required(repeat("host groups that the caller may use; '' for none")),
    "--only-via <cns>": repeat("control planes that must forward its requests; '' for any route"),
    "--force": "change an existing caller",
  },
  help: `
Examples:
  broker-ctl callers add agent-7 --groups web,db --reload
  broker-ctl callers add agent-7 --groups web --force --dry-run
  broker-ctl callers add agent-8 --groups ''
  broker-ctl callers add broker-2 --groups web --only-via control-plane-local

Once any caller is listed, unlisted callers see no hosts: add all callers that you need. The entry _default is for
all unlisted callers. --force changes the groups of an existing caller, and with --only-via its route. A broker without
--only-via can send requests directly to the signer and bypass the control plane's guardrails.
`,
  change(given) {
    const list = splitNames(given.groups) ?? [];
    const via = splitNames(given.onlyVia);
    let isFirst = false;
    return addition(CALLERS_OF, given, {
      edit(text, _there, { callers }) {
        isFirst = Object.keys(callers).length === 0;
        const path = ["callers", given.name];
        // Keep an empty list in the config, because it shows that no group was intended.
        const grouped = setValue(text, [...path, "allowed_groups"], list);
        return writeFields(grouped, { path, isNew: false }, { only_via: via });
      },
      describe: () => ({
        json: { allowed_groups: list, ...via !== undefined && { only_via: via } },
        facts: `groups=${list.join(",")}`,
        lines: isFirst ? ["This is the only caller: all other callers see no hosts."] : [],
      }),
    });
  },
});

const REMOVE: Removal = {
  argument: ["<cn>", "caller CN"],
  help: `
Examples:
  broker-ctl callers remove agent-7 --reload

Unlisted callers see no hosts, unless there is an entry _default. The last caller cannot be removed, because every
caller would see every host then. To stop a caller immediately: broker-ctl freeze --caller agent-7.
`,
  check(config, name) {
    if (Object.keys(config.callers).length > 1) return;
    const why = "it is the last one, and without callers every client certificate can use every host";
    throw conflict(`Cannot remove caller ${quoteText(name)}: ${why}`);
  },
};

/** `callers`: the callers of the signer's config, and the groups whose hosts they see. */
export const CALLERS: CommandGroup = {
  name: "callers",
  summary: "Manage which callers may use which host groups.",
  commands: [LIST, ...managing(CALLERS_OF, ADD, REMOVE)],
};

const KEYS: Collection<CaKeyConfig> = {
  what: "CA key",
  label: "ca-key",
  path: ["ca_keys"],
  of: ({ ca_keys }) => ca_keys,
};

const LIST_KEYS = command({
  name: "list",
  summary: "List the CA keys of the signer's config.",
  async run({ config }, { workingFolder }) {
    const { ca_key, ca_keys } = await loadSignerFile(config, workingFolder);
    const rows = byName(ca_keys).map(([name, key]) => [name, key.type, describeKey(key)]);
    const isCovered = ca_key === "" || Object.hasOwn(ca_keys, "_default");
    return {
      json: { ca_key, ca_keys },
      lines: [
        { none: "(no ca-keys configured)", columns: ["NAME", "TYPE", "DETAIL"], rows },
        ...isCovered ? [] : [`for all other hosts: ca_key ${ca_key}`],
      ],
    };
  },
});

const ADD_KEY = changing({
  name: "add",
  summary: "Add or change a CA key in the signer's config.",
  takes: {
    "--name <group>": named("host group, or _default"),
    "--type <type>": oneOf(CA_KEY_TYPES, "custody of the key"),
    "--path <file>": "pem: private key file",
    "--vault-url <url>": "akv: URL of the vault",
    "--key-name <name>": "akv: name of the key in the vault",
    "--public-key-path <file>": "agent: public key file",
    "--socket <path>": "agent: socket of the agent; required for a new key",
    "--force": "change an existing key",
  },
  help: `
Examples:
  broker-ctl ca-keys add prod --type agent --public-key-path pki/prod_ca.pub --socket /run/ca/agent.sock
  broker-ctl ca-keys add _default --type akv --vault-url https://ca.vault.azure.net --key-name ssh-ca
  broker-ctl ca-keys add prod --force --public-key-path pki/next_ca.pub --dry-run

The key signs certificates for the hosts of the group; _default is for all other hosts. --force changes only the given
fields of an existing key; a different --type replaces it. Hosts must trust the new key before the signer uses it. If
the key file is in a new location, restart the signer: a reload is not enough.
`,
  change: (given) => {
    const { name, type, path, vaultUrl, keyName, publicKeyPath, socket } = given;
    return addition(KEYS, given, {
      edit(text, there) {
        if (there === undefined && type === undefined) throw invalid("A new CA key needs --type");
        refuseWithoutSocket(given, there);
        // The config keys of one type do not apply to another type.
        const isNew = there === undefined || (type !== undefined && type !== there.type);
        return writeFields(text, { path: ["ca_keys", name], isNew }, {
          ...{ type, path, vault_url: vaultUrl, key_name: keyName },
          ...{ public_key_path: publicKeyPath, socket },
        });
      },
      describe: (key) => ({
        json: { key },
        facts: `type=${key.type}`,
        lines: [path, publicKeyPath, socket].flatMap((path = "") =>
          path === "" || isAbsolute(path)
            ? []
            : [`${quoteText(path)} is relative to the working directory of the signer`]
        ),
      }),
    });
  },
});

const REMOVE_KEY: Removal = {
  argument: ["<group>", "host group, or _default"],
  help: `
Examples:
  broker-ctl ca-keys remove prod --dry-run

The key of the next group of a host that has one then signs its certificates, else the default key.
`,
};

/** `ca-keys`: the CA key of each group of hosts. */
export const CA_KEYS: CommandGroup = {
  name: "ca-keys",
  summary: "Manage which CA key signs for which host group.",
  commands: [LIST_KEYS, ...managing(KEYS, ADD_KEY, REMOVE_KEY)],
};

/**
 * Rejects an agent key without a socket: the value of SSH_AUTH_SOCK at the signer's start is unknown here, so
 * no permission can be derived from it.
 */
function refuseWithoutSocket(
  { type, socket }: { readonly type?: string; readonly socket?: string },
  there?: CaKeyConfig,
): void {
  const isAgent = type === "agent" || (type === undefined && there?.type === "agent");
  const kept = there?.type === "agent" ? there.socket : "";
  if (!isAgent || (socket ?? kept) !== "") return;
  const fix =
    'pass a socket of the signer, such as /run/gateway-ca-agent/agent.sock; yours is "$SSH_AUTH_SOCK"';
  throw invalid("A CA key in an agent needs --socket", undefined, fix);
}

function describeKey(key: CaKeyConfig): string {
  switch (key.type) {
    case "pem":
      return key.path;
    case "akv":
      return `${key.vault_url} (key: ${key.key_name})`;
    case "agent":
      return `${key.public_key_path} (socket: ${key.socket || EMPTY_CELL})`;
    default:
      return key satisfies never;
  }
}
