import { isAbsolute } from "node:path";
import { Option } from "commander";
import { CA_KEY_TYPES, type CaKeyConfig } from "@gateway/shared/ca";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { once } from "../kit/arguments.ts";
import type { AddCommand } from "../kit/context.ts";
import { type Fields, writeFields } from "../kit/entries.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import {
  addChangeOptions,
  addRemove,
  CHANGE_HELP,
  type ChangeFlags,
  changeUses,
  requireEntry,
  runChange,
  type SignerChange,
} from "../kit/signer_change.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";

interface AddFlags extends ChangeFlags {
  readonly name: string;
  readonly type?: CaKeyConfig["type"];
  readonly path?: string;
  readonly vaultUrl?: string;
  readonly keyName?: string;
  readonly publicKeyPath?: string;
  readonly socket?: string;
  readonly force?: boolean;
}

const ADD_EXAMPLES = `
Examples:
  broker-ctl ca-keys add --name prod --type agent --public-key-path pki/prod_ca.pub --socket /run/ca/agent.sock
  broker-ctl ca-keys add --name _default --type akv --vault-url https://ca.vault.azure.net --key-name ssh-ca
  broker-ctl ca-keys add --name prod --force --public-key-path pki/next_ca.pub --dry-run

The name is a group of hosts, whose certificates this key signs; _default is for the others. --force changes a key that
is there, by what is given alone; of another --type it is a key anew. Its hosts must trust the new key before the signer
takes it. A key that lies elsewhere is one more permission of the signer: start it again instead of a reload.
${CHANGE_HELP}`;

const REMOVE_EXAMPLES = `
Examples:
  broker-ctl ca-keys remove prod --dry-run

The hosts of that group get certificates of the next of their groups that has a key, else of the default.
${CHANGE_HELP}`;

/** `ca-keys add`, `ca-keys list` and `ca-keys remove`: which key signs for which group of hosts. */
export const addCaKeys: AddCommand = (program, context) => {
  const keys = program.command("ca-keys").description("See and change which CA key signs for which hosts.");
  keys.command("list")
    .description("List the CA keys of the signer's config.")
    .action((_flags, command) =>
      context.run(command, ["config"], async () => {
        const { config } = command.optsWithGlobals() as { readonly config?: string };
        const { ca_key, ca_keys } = await loadSignerFile(config, context.workingFolder);
        return { json: { ca_key, ca_keys }, lines: formatKeys(ca_key, ca_keys, context.terminal.columns) };
      })
    );
  addChangeOptions(keys.command("add"))
    .description("Add a CA key to the signer's config, or change one.")
    .requiredOption("--name <group>", "the group of hosts, or _default", once)
    .addOption(new Option("--type <type>", "where the key is kept").choices(CA_KEY_TYPES))
    .option("--path <file>", "pem: the private key file", once)
    .option("--vault-url <url>", "akv: the vault", once)
    .option("--key-name <name>", "akv: the key in it", once)
    .option("--public-key-path <file>", "agent: which of its keys", once)
    .option("--socket <path>", "agent: its socket, which a new key needs", once)
    .option("--force", "change a key that is there")
    .addHelpText("after", ADD_EXAMPLES)
    .action((flags: AddFlags, command) =>
      context.run(command, changeUses(flags), () => runChange(command, context, addition(flags)))
    );
  addRemove(keys, context, {
    ...{ what: "CA key", label: "ca-key", argument: "<group>", aliases: ["rm"], help: REMOVE_EXAMPLES },
    path: ["ca_keys"],
    check: ({ ca_keys }, name) => requireEntry(ca_keys, "CA key", name),
  });
};

function addition({ name, force = false, ...flags }: AddFlags): SignerChange {
  const fields: Fields = {
    type: flags.type,
    path: flags.path,
    vault_url: flags.vaultUrl,
    key_name: flags.keyName,
    public_key_path: flags.publicKeyPath,
    socket: flags.socket,
  };
  let isNew = true;
  return {
    edit(text, { ca_keys }) {
      const there = Object.hasOwn(ca_keys, name) ? ca_keys[name] : undefined;
      isNew = there === undefined;
      if (!isNew && !force) {
        throw new AppError(
          "conflict",
          `Cannot add CA key ${quoteText(name)}: it is there; --force changes it`,
        );
      }
      if (isNew && flags.type === undefined) {
        throw new AppError("invalid_request", "A new CA key needs --type");
      }
      refuseWithoutSocket(flags, there);
      // What the keys of one type have says nothing about those of another.
      const isAnew = isNew || (flags.type !== undefined && flags.type !== there?.type);
      return writeFields(text, { path: ["ca_keys", name], isNew: isAnew }, fields);
    },
    describe: ({ ca_keys }) => ({
      json: { name, added: isNew, key: ca_keys[name] },
      lines: [
        `ca-key ${quoteText(name)} ${isNew ? "added" : "updated"} (type=${ca_keys[name]?.type})`,
        ...[flags.path, flags.publicKeyPath, flags.socket]
          .filter((path) => path !== undefined && path !== "" && !isAbsolute(path))
          .map((path = "") => `${quoteText(path)} is looked for in the folder that the signer is started in`),
      ],
    }),
  };
}

/** What SSH_AUTH_SOCK will name at the signer's start is known to nobody here, and no permission can be given for it. */
function refuseWithoutSocket({ type, socket }: Pick<AddFlags, "type" | "socket">, there?: CaKeyConfig): void {
  const isAgent = type === "agent" || (type === undefined && there?.type === "agent");
  const kept = there?.type === "agent" ? there.socket : "";
  if (!isAgent || (socket ?? kept) !== "") return;
  throw new AppError(
    "invalid_request",
    "A CA key in an agent needs --socket, the path that the agent listens at. Your shell's own: " +
      '--socket "$SSH_AUTH_SOCK"; the signer has to be able to use it, such as /run/gateway-ca-agent/agent.sock',
  );
}

function formatKeys(
  caKey: string,
  keys: Readonly<Record<string, CaKeyConfig>>,
  columns: number | undefined,
): readonly string[] {
  const names = Object.keys(keys).sort();
  const note = caKey === "" || names.includes("_default") ? [] : [`for all other hosts: ca_key ${caKey}`];
  if (names.length === 0) return ["(no ca-keys configured)", ...note];
  const rows = names.flatMap((name) => {
    const key = keys[name];
    return key === undefined ? [] : [[name, key.type, describeKey(key)]];
  });
  return [...formatTable(["NAME", "TYPE", "DETAIL"], rows, columns), ...note];
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
