import { AppError } from "@gateway/shared/errors";
import {
  CLUSTER_EFFECTS,
  type ClusterEffect,
  type ClusterPolicy,
  type ClusterRule,
  CORE_RESOURCES,
  K8S_VERBS,
  MAX_TOKEN_TTL_SECONDS,
  rulePattern,
  type ServiceAccountBinding,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { ExtraResource } from "@gateway/shared/wire";
import type { SignerConfig } from "@gateway/signer/config";
import { count, type Given, repeat } from "../kit/command.ts";
import { HintedError, invalid } from "../kit/output.ts";

/** The options that describe a cluster. */
export const ENTRY = {
  "--api-server <url>": "https://host:port",
  "--ca-cert <file>": "the cluster's CAs, PEM",
  "--token-file <file>": "the token of the account that makes tokens",
  "--service-account <account>": repeat("<namespace>/<name>[=<groups of end users>]; repeat for more"),
  "--rule <rule>": repeat("<effect> <verbs> <resources> [<namespaces>[/<names>]]; repeat for more"),
  "--token-binding <namespace>": "tokens can be taken back; the namespace of all accounts",
  "--token-ttl <seconds>": count("life of the tokens (default: 600)", 0, MAX_TOKEN_TTL_SECONDS),
  "--group <group>": repeat("a group for access control; repeat for more"),
  "--caller <cn>": repeat("a caller that may use it (default: any); repeat for more"),
  "--resource <resource>": repeat("<plural>.<group>/<version>/<Kind> beside the built-in ones; repeat"),
  "--cluster-resource <resource>": repeat("the same of objects without a namespace; repeat"),
} as const;

/** Reads the flags, in the order of the keys of the documentation. One empty value clears a list. */
export function readClusterEntry(
  flags: Given<typeof ENTRY>,
): { readonly [K in keyof ClusterPolicy]?: ClusterPolicy[K] } {
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
    groups: readAll(flags.group, (text) => text),
    allowed_callers: readAll(flags.caller, (text) => text),
    sa_bindings: readAll(flags.serviceAccount, readBinding),
    rules: readAll(flags.rule, readRule),
    extra_resources: extras,
    token_binding: flags.tokenBinding === undefined ? undefined : { namespace: flags.tokenBinding },
  };
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined));
}

/** Undefined if the flag is absent; an empty list if its one value is empty. */
function readAll<T>(
  values: readonly string[] | undefined,
  read: (text: string) => T,
): readonly T[] | undefined {
  return values?.length === 1 && values[0] === "" ? [] : values?.map(read);
}

/** Reads `allow get,list pods prod/web-1`: effect, verbs, resources, namespaces, names. */
function readRule(text: string): ClusterRule {
  const [effect = "", verbs = "", resources = "", place = "*", ...rest] = text.trim().split(/\s+/);
  const [namespaces = "", names = "*", ...more] = place.split("/");
  // An empty list would mean everything.
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
  const cluster = kubernetes?.clusters[name];
  if (cluster !== undefined) return cluster;
  const error = new AppError("not_found", `Cannot find cluster ${quoteText(name)}: unknown cluster`);
  throw new HintedError(error, "broker-ctl cluster list shows the clusters");
}

/** The pattern of the actions `<verbs> <resources> <namespaces>/<names>`, as a signer makes it of a rule. */
export function actionPattern(text: string): string {
  // A grant names everything: a part that a rule leaves out matches everything.
  if (!/^\s*\S+\s+\S+\s+[^\s/]+\/[^\s/]+\s*$/.test(text)) {
    throw refusal(
      `read action ${quoteText(text)}`,
      'expected "<verbs> <resources> <namespaces>/<names>"',
    );
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
    const fix = "not a built-in resource; write one of the cluster's own with its group";
    throw refusal(`grant ${quoteText(bare)}`, fix);
  }
  return rulePattern(rule, CORE_RESOURCES);
}

function refusal(what: string, why: string): AppError {
  return invalid(`Cannot ${what}: ${why}`);
}
