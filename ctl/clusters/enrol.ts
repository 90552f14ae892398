import { type ClusterPolicy, isLabel, isSubdomain } from "@gateway/shared/policy";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { clusterOf } from "./entry.ts";
import { command } from "../kit/command.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { invalid } from "../kit/output.ts";
import { neededRights, type RbacRule, type Right, toRbacRules } from "./rights.ts";

const DEFAULT_MINTER = "gateway-minter";

/** `cluster enrol`: the accounts and roles that a cluster needs, as manifests. */
export const ENROL = command({
  name: "enrol",
  summary: "Print the accounts and roles that a cluster has to have, for kubectl apply.",
  takes: {
    "<name>": "which",
    "--print": "print the manifests",
    "--minter <account>":
      `<namespace>/<name> of the account of token_file (default: ${DEFAULT_MINTER} beside the first account)`,
  },
  help: `
Examples:
  broker-ctl cluster enrol prod --print | kubectl apply -f -
  broker-ctl cluster enrol prod --print --minter gateway/minter --config /etc/gateway/signer.json

Prints what the cluster has to have for the rules of the signer's config, and no more: the account whose token is in
token_file, which may make tokens of the accounts of sa_bindings and nothing else; those accounts; and the roles for
what the rules allow. RBAC has no deny: a rule that denies a part of what another one allows is the signer's alone.
--json prints the same as one List, which kubectl apply takes as well. The cluster itself is not asked and not changed.
`,
  async run(flags, { workingFolder }) {
    const { name, print = false } = flags;
    if (!print) throw invalid("Nothing to do without --print: the cluster itself is not changed");
    const cluster = clusterOf(await loadSignerFile(flags.config, workingFolder), name);
    const minter = readMinter(flags.minter, cluster);
    const manifests = enrolManifests(name, cluster, minter);
    return {
      json: { apiVersion: "v1", kind: "List", items: manifests },
      lines: [...introduce(name, cluster, minter), ...await formatManifests(manifests)],
    };
  },
});

function readMinter(text: string | undefined, cluster: ClusterPolicy): AccountName {
  const namespace = boundAccounts(cluster)[0]?.namespace ?? "default";
  if (text === undefined) return { namespace, name: DEFAULT_MINTER };
  const [, of, name] = /^([^/]+)\/([^/]+)$/.exec(text) ?? [];
  if (of === undefined || name === undefined || !isLabel(of) || !isSubdomain(name)) {
    throw invalid(`Cannot use minter ${quoteText(text)}: expected <namespace>/<name>`);
  }
  return { namespace: of, name };
}

function introduce(
  name: string,
  { api_server, token_file, rules }: ClusterPolicy,
  minter: AccountName,
): readonly string[] {
  const file = shellQuote(token_file);
  return [
    `What cluster ${quoteText(name)} (${api_server}) has to have, and no more. Apply it as an administrator:`,
    `  broker-ctl cluster enrol ${shellQuote(name)} --print | kubectl apply -f -`,
    "Then write the token that makes tokens, for the signer's account alone, and renew it before it ends:",
    `  (umask 077 && kubectl -n ${minter.namespace} create token ${minter.name} --duration=720h > ${file})`,
    `  broker-ctl cluster check ${shellQuote(name)}`,
    ...(rules.some(({ effect }) => effect === "deny")
      ? ["RBAC has no deny: what a rule denies of what another one allows, the signer alone denies."]
      : []),
  ].map((line) => `# ${visibleText(line)}`);
}

async function formatManifests(manifests: readonly Manifest[]): Promise<readonly string[]> {
  // No other command needs this library.
  const { stringify } = await import("yaml");
  return manifests.flatMap((manifest) => [
    "---",
    ...stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false }).trimEnd().split("\n"),
  ]);
}

export interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

/** An object as `kubectl apply` takes it. */
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}

const RBAC = "rbac.authorization.k8s.io";

/** The objects that a cluster needs for a config: accounts, and the rights of the minter and of the others. */
function enrolManifests(
  name: string,
  cluster: ClusterPolicy,
  minter: AccountName,
): readonly Manifest[] {
  const accounts = boundAccounts(cluster);
  const lease = cluster.token_binding?.namespace;
  const rights = Map.groupBy(neededRights(cluster), ({ namespace }) => namespace);
  const namespaces = [...rights.keys()].flatMap((namespace) => namespace === undefined ? [] : [namespace])
    .sort();
  return [
    ...(lease === undefined ? [] : [{ apiVersion: "v1", kind: "Namespace", metadata: { name: lease } }]),
    ...[minter, ...accounts].map(({ namespace, name }) => ({
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name, namespace },
      // Tokens are made one by one; a pod that runs as the account must not get one automatically.
      automountServiceAccountToken: false,
    })),
    ...mintingRights(cluster).flatMap(([namespace, rights]) =>
      grant({ name: `gateway-${name}-mint`, namespace, rules: toRbacRules(rights), accounts: [minter] })
    ),
    ...[undefined, ...namespaces].flatMap((namespace) => {
      const rules = toRbacRules(rights.get(namespace) ?? []);
      return rules.length === 0 ? [] : grant({ name: `gateway-${name}-act`, namespace, rules, accounts });
    }),
  ];
}

/** The ServiceAccounts of a cluster's bindings, each once. */
export function boundAccounts({ sa_bindings }: ClusterPolicy): readonly AccountName[] {
  const accounts = new Map(
    sa_bindings.map(({ namespace, service_account: name }) => [`${namespace}/${name}`, { namespace, name }]),
  );
  return [...accounts.values()];
}

/** The rights that the minter of a cluster needs, by namespace. */
export function mintingRights(cluster: ClusterPolicy): readonly (readonly [string, readonly Right[]])[] {
  const lease = cluster.token_binding?.namespace;
  const byNamespace = Map.groupBy(boundAccounts(cluster), ({ namespace }) => namespace);
  return [...byNamespace].map(([namespace, accounts]) => {
    const right = { namespace, group: "" };
    return [namespace, [
      ...accounts.map(({ name }) => ({ ...right, resource: "serviceaccounts/token", verb: "create", name })),
      ...(namespace === lease ? ["create", "delete"] : []).map((verb) => ({
        ...right,
        resource: "secrets",
        verb,
      })),
    ]];
  });
}

function grant({ name, namespace, rules, accounts }: {
  readonly name: string;
  /** Undefined: all namespaces. */
  readonly namespace: string | undefined;
  readonly rules: readonly RbacRule[];
  readonly accounts: readonly AccountName[];
}): readonly Manifest[] {
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }) };
  const kind = namespace === undefined ? "ClusterRole" : "Role";
  return [
    { apiVersion: `${RBAC}/v1`, kind, metadata, rules },
    {
      apiVersion: `${RBAC}/v1`,
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: RBAC, kind, name },
      subjects: accounts.map(({ namespace, name }) => ({ kind: "ServiceAccount", name, namespace })),
    },
  ];
}
