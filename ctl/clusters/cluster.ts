import { resolve } from "node:path";
import type { Command } from "commander";
import { setValue } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import { type ClusterPolicy, MAX_TOKEN_TTL_SECONDS } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { clustersResponse } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { countOf, once, repeated } from "../kit/arguments.ts";
import type { ClientSection } from "../kit/client_config.ts";
import { formatClusterInfos, formatClusters, labelRules } from "./cluster_table.ts";
import { type ClusterFlags, clusterOf, readClusterEntry } from "./entry.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { addRemoteOptions, askSigner, refuseRemoteFlags, REMOTE_HELP } from "../kit/remote.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import {
  addChangeOptions,
  addRemove,
  CHANGE_HELP,
  type ChangeFlags,
  changeUses,
  runChange,
  type SignerChange,
} from "../kit/signer_change.ts";

interface ListFlags extends ClientSection {
  readonly remote?: boolean;
}

interface AddFlags extends ClusterFlags, ChangeFlags {
  readonly force?: boolean;
}

const LIST_EXAMPLES = `
Examples:
  broker-ctl cluster list --config /etc/gateway/signer.json
  broker-ctl cluster list --remote
  broker-ctl cluster list --remote --json

Without --remote it reads the signer's config and lists all clusters. With --remote it requests the list from the running
signer, which returns the clusters that your certificate's CN may use. An operator's CN usually may use none.
${REMOTE_HELP}`;

const ADD_EXAMPLES = `
Examples:
  broker-ctl cluster add prod --api-server https://10.0.0.5:6443 --ca-cert clusters/prod.crt \\
      --token-file clusters/prod.token --service-account gateway/agent --token-binding gateway \\
      --rule 'allow get,list,logs pods web' --rule 'require_approval apply deployments web/shop'
  broker-ctl cluster add prod --force --rule 'allow get,list pods web' --rule 'deny * secrets'

A rule is an effect (allow, deny, require_approval), verbs (get, list, logs, apply, delete), resources in their plural,
and where: namespaces, and after a slash names of objects. Several with commas, * for all; without the last word it is
everywhere. - stands for the namespace of what has none, and for a list of all namespaces.
--force changes a cluster that is there, by what is given alone: a list takes the place of the old one, '' clears it.
Next: broker-ctl cluster enrol prod --print, then broker-ctl cluster check prod, then broker-ctl reload.
${CHANGE_HELP}`;

const REMOVE_EXAMPLES = `
Examples:
  broker-ctl cluster enrol prod --print | kubectl delete -f -
      first, so that nothing is left in the cluster
  broker-ctl cluster remove prod --config /etc/gateway/signer.json
${CHANGE_HELP}`;

/** `cluster list`, `cluster add` and `cluster remove`: the clusters of the signer's config. */
export const addCluster: AddCommand = (cluster, context) => {
  addRemoteOptions(
    cluster.command("list").option("--remote", "ask the running signer instead of reading its config"),
  )
    .description("List the clusters of the signer's config, or of the running signer.")
    .addHelpText("after", LIST_EXAMPLES)
    .action((flags: ListFlags, command) =>
      flags.remote === true
        ? context.run(command, ["config", "clientConfig"], () => listRemote(command, context))
        : context.run(command, ["config"], () => listLocal(command, context, flags))
    );
  addChangeOptions(cluster.command("add"))
    .description("Add a cluster to the signer's config, or change one.")
    .argument("<name>", "its name for agents and rules")
    .option("--api-server <url>", "https://host:port", once)
    .option("--ca-cert <file>", "the cluster's CAs, PEM", once)
    .option("--token-file <file>", "the token of the account that makes tokens", once)
    .option(
      "--service-account <account>",
      "<namespace>/<name>[=<groups of end users>]; repeat for more",
      repeated,
    )
    .option(
      "--rule <rule>",
      "<effect> <verbs> <resources> [<namespaces>[/<names>]]; repeat for more",
      repeated,
    )
    .option("--token-binding <namespace>", "tokens can be taken back; the namespace of all accounts", once)
    .option("--token-ttl <seconds>", "life of the tokens (default: 600)", countOf(0, MAX_TOKEN_TTL_SECONDS))
    .option("--group <group>", "a group for access control; repeat for more", repeated)
    .option("--caller <cn>", "a caller that may use it (default: any); repeat for more", repeated)
    .option(
      "--resource <resource>",
      "<plural>.<group>/<version>/<Kind> beside the built-in ones; repeat",
      repeated,
    )
    .option("--cluster-resource <resource>", "the same of objects without a namespace; repeat", repeated)
    .option("--force", "change a cluster that is there")
    .addHelpText("after", ADD_EXAMPLES)
    .action((name: string, flags: AddFlags, command) =>
      context.run(
        command,
        changeUses(flags),
        () => runChange(command, context, addition(name, flags, context.workingFolder)),
      )
    );
  addRemove(cluster, context, {
    ...{ what: "cluster", argument: "<name>", aliases: ["rm"], help: REMOVE_EXAMPLES },
    path: ["kubernetes", "clusters"],
    check: clusterOf,
  });
};

async function listRemote(command: Command, context: CommandContext): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: "cluster list",
    method: "GET",
    path: "/v1/clusters",
    schema: clustersResponse,
    advice: { 403: "the certificate's caller is frozen, or not known to the signer" },
  });
  return { json: body, lines: formatClusterInfos(data, context.terminal.columns) };
}

async function listLocal(
  command: Command,
  { workingFolder, terminal }: CommandContext,
  flags: ListFlags,
): Promise<CommandResult> {
  refuseRemoteFlags(flags);
  const { config } = command.optsWithGlobals() as { readonly config?: string };
  const { kubernetes } = await loadSignerFile(config, workingFolder);
  const clusters = kubernetes?.clusters ?? {};
  return { json: clusters, lines: formatClusters(clusters, terminal.columns) };
}

function addition(name: string, flags: AddFlags, workingFolder: string): SignerChange {
  const entry = readClusterEntry(flags);
  let isNew = true;
  return {
    edit: (text, { kubernetes }) => {
      isNew = !Object.hasOwn(kubernetes?.clusters ?? {}, name);
      if (isNew) {
        return setValue(text, pathOf(name), {
          ...entry,
          sa_bindings: entry.sa_bindings ?? [],
          rules: entry.rules ?? [],
        });
      }
      if (flags.force !== true) {
        throw new AppError(
          "conflict",
          `Cannot add cluster ${quoteText(name)}: it is there; --force changes it`,
        );
      }
      return Object.entries(entry).reduce(
        (text, [key, value]) => setValue(text, [...pathOf(name), key], value),
        text,
      );
    },
    describe: async (config) => {
      const cluster = clusterOf(config, name);
      const { ca_cert, token_file } = cluster;
      const absent = await findAbsent({ ca_cert, token_file }, workingFolder);
      return {
        json: { name, added: isNew, cluster, absent },
        lines: [
          `cluster ${quoteText(name)} ${isNew ? "added" : "updated"} ` +
          `(api_server=${cluster.api_server}, rules=${labelRules(cluster.rules)})`,
          ...(hasUser(config, cluster)
            ? []
            : ["none of the config's callers may use it: it has none of their groups (--group)"]),
          ...absent.map((key) =>
            `${key} ${quoteText(cluster[key])} is not there yet: until it is, the signer refuses this config`
          ),
        ],
      };
    },
  };
}

/** Whether the groups of any caller let it at a cluster; without a table of callers they do. */
function hasUser({ callers }: SignerConfig, { groups = [] }: ClusterPolicy): boolean {
  const rows = Object.values(callers);
  return rows.length === 0 ||
    rows.some(({ allowed_groups = [] }) => groups.some((group) => allowed_groups.includes(group)));
}

function pathOf(name: string): readonly string[] {
  return ["kubernetes", "clusters", name];
}

/** The keys whose files are not there, as far as one can tell from this folder. */
async function findAbsent<K extends string>(
  files: Readonly<Record<K, string>>,
  workingFolder: string,
): Promise<readonly K[]> {
  const absent: K[] = [];
  for (const key of Object.keys(files) as K[]) {
    if (await ifThere(Deno.stat(resolve(workingFolder, files[key]))) === undefined) absent.push(key);
  }
  return absent;
}
