import { setValue } from "@gateway/shared/config";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type CommandGroup, oneOf, repeat, required } from "../kit/command.ts";
import { splitNames, writeFields } from "../kit/entries.ts";
import { addition, changing, type Collection, removing, requireEntry } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { byName, EMPTY_CELL, tableOr } from "../kit/table.ts";
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
  async run({ config }, { workingFolder, terminal }) {
    const { callers } = await loadSignerFile(config, workingFolder);
    const rows = byName(callers).map(([name, { allowed_groups }]) => [
      name,
      allowed_groups?.join(",") || EMPTY_CELL,
    ]);
    const heading = ["NAME", "ALLOWED_GROUPS"];
    return { json: callers, lines: tableOr("(no callers configured)", heading, rows, terminal.columns) };
  },
});

const ADD = changing({
  name: "add",
  summary: "Add a caller to the signer's config, or change its groups.",
  takes: {
    "--name <cn>": required("the CN of its certificate"),
    "--groups <groups>": required(repeat("the groups whose hosts it sees; '' is none")),
    "--only-via <cns>": repeat("the control planes that its requests come through; '' is any way"),
    "--force": "change a caller that is there",
  },
  help: `
Examples:
  broker-ctl callers add --name agent-7 --groups web,db --reload
  broker-ctl callers add --name agent-7 --groups web --force --dry-run
  broker-ctl callers add --name agent-8 --groups ''
  broker-ctl callers add --name broker-2 --groups web --only-via control-plane-local

--groups '' is a caller that sees no host. --force changes the groups of a caller that is there, and --only-via where that
is given, and nothing else of it. A broker that is not --only-via a control plane can ask the signer itself, past what
that watches.
The first caller that is added ends the time in which every caller sees every host: list all that there are. A caller
of the name _default stands for all that are not listed.
`,
  change(given) {
    const list = splitNames(given.groups) ?? [];
    const via = splitNames(given.onlyVia);
    let isFirst = false;
    return addition(CALLERS_OF, given, {
      edit(text, _there, { callers }) {
        isFirst = Object.keys(callers).length === 0;
        const path = ["callers", given.name];
        // An empty list stays in the text: it says that there is none, and was not forgotten.
        const grouped = setValue(text, [...path, "allowed_groups"], list);
        return writeFields(grouped, { path, isNew: false }, { only_via: via });
      },
      describe: () => ({
        json: { allowed_groups: list, ...via !== undefined && { only_via: via } },
        facts: `groups=${list.join(",")}`,
        lines: isFirst ? ["it is the only one: every other caller sees nothing from then on"] : [],
      }),
    });
  },
});

const REMOVE = removing(CALLERS_OF, {
  argument: "<cn>",
  aliases: ["rm"],
  help: `
Examples:
  broker-ctl callers remove agent-7 --reload

A caller that is not listed sees nothing, unless there is a _default. The last one can't be taken out: without any,
every caller would see every host. A caller that must be stopped now is frozen: broker-ctl freeze --caller agent-7.
`,
  check(config, name) {
    requireEntry(CALLERS_OF, config, name);
    if (Object.keys(config.callers).length > 1) return;
    const why = "it is the last one, and without any every caller sees every host";
    throw conflict(`Cannot remove caller ${quoteText(name)}: ${why}`);
  },
});

/** `callers`: the callers of the signer's config, and the groups whose hosts they see. */
export const CALLERS: CommandGroup = {
  name: "callers",
  summary: "See and change who may use the hosts of which groups.",
  commands: [LIST, ADD, REMOVE],
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
  async run({ config }, { workingFolder, terminal }) {
    const { ca_key, ca_keys } = await loadSignerFile(config, workingFolder);
    const rows = byName(ca_keys).map(([name, key]) => [name, key.type, describeKey(key)]);
    const isCovered = ca_key === "" || Object.hasOwn(ca_keys, "_default");
    const heading = ["NAME", "TYPE", "DETAIL"];
    return {
      json: { ca_key, ca_keys },
      lines: [
        ...tableOr("(no ca-keys configured)", heading, rows, terminal.columns),
        ...isCovered ? [] : [`for all other hosts: ca_key ${ca_key}`],
      ],
    };
  },
});

const ADD_KEY = changing({
  name: "add",
  summary: "Add a CA key to the signer's config, or change one.",
  takes: {
    "--name <group>": required("the group of hosts, or _default"),
    "--type <type>": oneOf(CA_KEY_TYPES, "where the key is kept"),
    "--path <file>": "pem: the private key file",
    "--vault-url <url>": "akv: the vault",
    "--key-name <name>": "akv: the key in it",
    "--public-key-path <file>": "agent: which of its keys",
    "--socket <path>": "agent: its socket, which a new key needs",
    "--force": "change a key that is there",
  },
  help: `
Examples:
  broker-ctl ca-keys add --name prod --type agent --public-key-path pki/prod_ca.pub --socket /run/ca/agent.sock
  broker-ctl ca-keys add --name _default --type akv --vault-url https://ca.vault.azure.net --key-name ssh-ca
  broker-ctl ca-keys add --name prod --force --public-key-path pki/next_ca.pub --dry-run

The name is a group of hosts, whose certificates this key signs; _default is for the others. --force changes a key that
is there, by what is given alone; of another --type it is a key anew. Its hosts must trust the new key before the signer
takes it. A key that lies elsewhere is one more permission of the signer: start it again instead of a reload.
`,
  change: (given) => {
    const { name, type, path, vaultUrl, keyName, publicKeyPath, socket } = given;
    return addition(KEYS, given, {
      edit(text, there) {
        if (there === undefined && type === undefined) throw invalid("A new CA key needs --type");
        refuseWithoutSocket(given, there);
        // The keys of one type mean nothing to another type.
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
            : [`${quoteText(path)} is looked for in the folder that the signer is started in`]
        ),
      }),
    });
  },
});

const REMOVE_KEY = removing(KEYS, {
  argument: "<group>",
  aliases: ["rm"],
  help: `
Examples:
  broker-ctl ca-keys remove prod --dry-run

The hosts of that group get certificates of the next of their groups that has a key, else of the default.
`,
});

/** `ca-keys`: the CA key of each group of hosts. */
export const CA_KEYS: CommandGroup = {
  name: "ca-keys",
  summary: "See and change which CA key signs for which hosts.",
  commands: [LIST_KEYS, ADD_KEY, REMOVE_KEY],
};

/** The value of SSH_AUTH_SOCK at the signer's start is unknown here, so that no permission can be derived from it. */
function refuseWithoutSocket(
  { type, socket }: { readonly type?: string; readonly socket?: string },
  there?: CaKeyConfig,
): void {
  const isAgent = type === "agent" || (type === undefined && there?.type === "agent");
  const kept = there?.type === "agent" ? there.socket : "";
  if (!isAgent || (socket ?? kept) !== "") return;
  throw invalid(
    "A CA key in an agent needs --socket, the path that the agent listens at. Your shell's own: " +
      '--socket "$SSH_AUTH_SOCK"; the signer has to be able to use it, such as /run/gateway-ca-agent/agent.sock',
  );
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
