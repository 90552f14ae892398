import type { AppError } from "@gateway/shared/errors";
import {
  CLUSTER_EFFECTS,
  type ClusterEffect,
  type ClusterPolicy,
  type ClusterRule,
  CORE_RESOURCES,
  isLabel,
  isSubdomain,
  K8S_VERBS,
  MAX_TOKEN_TTL_SECONDS,
  rulePattern,
  type ServiceAccountBinding,
} from "@gateway/shared/policy";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import type { ExtraResource } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { APPROVALS_OPTION } from "../approvers/approver.ts";
import { command, count, type Given, repeat } from "../kit/command.ts";
import { splitNames } from "../kit/entries.ts";
import { invalid } from "../kit/output.ts";
import { requireEntry } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { neededRights, type RbacRule, type Right, toRbacRules } from "./rights.ts";

/** The options that describe a cluster. */
export const ENTRY = {
  "--api-server <url>": "URL of the API server, https://host:port",
  "--ca-cert <file>": "CAs of the cluster, PEM",
  "--token-file <file>": "token of the account that issues tokens",
  "--service-account <account>": repeat("<namespace>/<name>[=<groups of end users>]; repeatable"),
  "--rule <rule>": repeat("<effect> <verbs> <resources> [<namespaces>[/<names>]]; repeatable"),
  "--token-binding <namespace>": "make tokens revocable; the namespace of all accounts",
  "--token-ttl <seconds>": count("lifetime of tokens (default: 600)", 0, MAX_TOKEN_TTL_SECONDS),
  ...APPROVALS_OPTION,
  "--group <group>": repeat("group for access control; repeatable"),
  "--caller <cn>": repeat("caller that may use the cluster (default: any); repeatable"),
  "--resource <resource>": repeat("additional resource, <plural>.<group>/<version>/<Kind>; repeatable"),
  "--cluster-resource <resource>": repeat("additional resource without a namespace; repeatable"),
} as const;

/** Reads the flags, in the order of the keys of the documentation. One empty value clears a list. */
export function readClusterEntry(flags: Given<typeof ENTRY>) {
  const resources = [
    ...readAll(flags.resource, (text) => readResource(text, true)) ?? [],
    ...readAll(flags.clusterResource, (text) => readResource(text, false)) ?? [],
  ];
  const extras = flags.resource === undefined && flags.clusterResource === undefined ? undefined : resources;
  const entry: Record<keyof ClusterPolicy, ClusterPolicy[keyof ClusterPolicy] | undefined> = {
    api_server: flags.apiServer,
    ca_cert: flags.caCert,
    token_file: flags.tokenFile,
    token_ttl_seconds: flags.tokenTtl,
    approvals_required: flags.approvals,
    groups: splitNames(flags.group),
    allowed_callers: splitNames(flags.caller),
    sa_bindings: readAll(flags.serviceAccount, readBinding),
    rules: readAll(flags.rule, readRule),
    extra_resources: extras,
    token_binding: flags.tokenBinding === undefined ? undefined : { namespace: flags.tokenBinding },
  };
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
}

/** Undefined if the flag is absent; an empty list if its one value is empty. */
function readAll<T>(values: readonly string[] | undefined, read: (text: string) => T) {
  return values?.length === 1 && values[0] === "" ? [] : values?.map(read);
}

/** Reads `allow get,list pods prod/web-1`: effect, verbs, resources, namespaces, names. */
function readRule(text: string): ClusterRule {
  const [effect = "", verbs = "", resources = "", place = "*", ...rest] = text.trim().split(/\s+/);
  const [namespaces = "", names = "*", ...more] = place.split("/");
  // Reject empty lists, because an empty list means everything.
  const isWhole = [verbs, resources, namespaces, names].every((part) =>
    part.split(",").every((one) => one !== "")
  );
  if (!isEffect(effect) || !isWhole || rest.length > 0 || more.length > 0) {
    const effects = CLUSTER_EFFECTS.join("|");
    const form = `"<${effects}> <verbs> <resources> [<namespaces>[/<names>]]", each with commas or *`;
    throw refusal(`read rule ${quoteText(text)}`, `expected ${form}`);
  }
  return {
    ...{ verbs: split(verbs), resources: split(resources) },
    ...{ namespaces: split(namespaces), names: split(names), effect },
  };
}

/** `gateway/agent`, or `gateway/dba=dba,ops` for the end users of these groups. */
function readBinding(text: string): ServiceAccountBinding {
  const [, namespace, service_account, groups] = /^([^/=]+)\/([^/=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (namespace === undefined || service_account === undefined) {
    const forms = "expected <namespace>/<name> or <namespace>/<name>=<groups of end users>";
    throw refusal(`read ServiceAccount ${quoteText(text)}`, forms);
  }
  return { ...(groups === undefined ? {} : { groups: split(groups) }), namespace, service_account };
}

/** `widgets.example.com/v1/Widget`. */
function readResource(text: string, namespaced: boolean): ExtraResource {
  const [, resource, group = "", version, kind] = /^([^./]+)(?:\.([^/]+))?\/([^/]+)\/([^/]+)$/.exec(text) ??
    [];
  if (resource === undefined || version === undefined || kind === undefined) {
    throw refusal(`read resource ${quoteText(text)}`, "expected <plural>.<group>/<version>/<Kind>");
  }
  return { resource, group, version, kind, namespaced };
}

function split(text: string): readonly string[] {
  return text.split(",").map((part) => part.trim());
}

function isEffect(text: string): text is ClusterEffect {
  return (CLUSTER_EFFECTS as readonly string[]).includes(text);
}

export function clusterOf({ kubernetes }: SignerConfig, name: string): ClusterPolicy {
  return requireEntry("cluster", kubernetes?.clusters ?? {}, name);
}

/** The pattern that matches the actions `<verbs> <resources> <namespaces>/<names>`, as the signer derives it from a rule. */
export function actionPattern(text: string): string {
  // A grant must name every part, because an omitted part of a rule matches everything.
  if (!/^\s*\S+\s+\S+\s+[^\s/]+\/[^\s/]+\s*$/.test(text)) {
    const form = '"<verbs> <resources> <namespaces>/<names>"';
    throw refusal(`read action ${quoteText(text)}`, `expected ${form}`);
  }
  const rule = readRule(`allow ${text}`);
  const verbs: readonly string[] = ["*", ...K8S_VERBS];
  const foreign = rule.verbs?.find((verb) => !verbs.includes(verb));
  if (foreign !== undefined) {
    throw refusal(`grant ${quoteText(foreign)}`, `expected ${K8S_VERBS.join(", ")} or *`);
  }
  const bare = rule.resources?.find((name) =>
    name !== "*" && !name.includes(".") && !CORE_RESOURCES.has(name)
  );
  if (bare !== undefined) {
    const fix = "it is not a built-in resource; write other resources with their group";
    throw refusal(`grant ${quoteText(bare)}`, fix);
  }
  return rulePattern(rule, CORE_RESOURCES);
}

function refusal(what: string, why: string): AppError {
  return invalid(`Cannot ${what}: ${why}`);
}

const DEFAULT_MINTER = "gateway-minter";

/** `cluster enroll`: the accounts and roles that a cluster needs, as manifests. */
export const ENROLL = command({
  name: "enroll",
  summary: "Print a cluster's accounts and roles for kubectl apply.",
  takes: {
    "<name>": "cluster name",
    "--print": "print the manifests (required)",
    "--minter <account>":
      `account of token_file, <namespace>/<name> (default: ${DEFAULT_MINTER} in the first account's namespace)`,
  },
  help: `
Examples:
  broker-ctl cluster enroll prod --print | kubectl apply -f -
  broker-ctl cluster enroll prod --print --minter gateway/minter --config /etc/gateway/signer.json

Prints what the rules in the signer's config need: the account whose token is in token_file, which may only issue tokens
for the accounts of sa_bindings; those accounts; and the roles for the allowed actions. RBAC has no deny rules, so only
the signer enforces a deny rule that narrows an allow rule. --json prints one List for kubectl apply. The command does
not contact the cluster.
`,
  async run(flags, { workingFolder }) {
    const { name, print = false } = flags;
    if (!print) throw invalid("Pass --print: this command only prints manifests");
    const cluster = clusterOf(await loadSignerFile(flags.config, workingFolder), name);
    const minter = readMinter(flags.minter, cluster);
    const manifests = enrollManifests(name, cluster, minter);
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

function introduce(name: string, { api_server, token_file, rules }: ClusterPolicy, minter: AccountName) {
  const file = shellQuote(token_file);
  return [
    `Accounts and roles for cluster ${quoteText(name)} (${api_server}). Apply them as an administrator:`,
    `  broker-ctl cluster enroll ${shellQuote(name)} --print | kubectl apply -f -`,
    "Then write the signer's token, readable by the signer's account only, and renew it before it expires:",
    `  (umask 077 && kubectl -n ${minter.namespace} create token ${minter.name} --duration=720h > ${file})`,
    `  broker-ctl cluster check ${shellQuote(name)}`,
    ...(rules.some(({ effect }) => effect === "deny")
      ? ["RBAC has no deny rules: only the signer enforces a deny rule that narrows an allow rule."]
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

/** An object for `kubectl apply`. */
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}

const RBAC = "rbac.authorization.k8s.io";

/** The objects that a cluster needs for a config: accounts, and the rights of the minter and of the others. */
function enrollManifests(name: string, cluster: ClusterPolicy, minter: AccountName) {
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
      // Tokens are issued one by one; a pod that runs as the account must not get one automatically.
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

/** The ServiceAccounts in a cluster's bindings, without duplicates. */
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
