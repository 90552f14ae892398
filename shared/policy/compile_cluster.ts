// Checks and compiles one cluster of the policy.
import { isUnsafe, quoteText } from "../text.ts";
import type { ExtraResource } from "../wire/inventory.ts";
import {
  type compilePattern,
  composePolicies,
  escapePattern,
  NO_RULES,
  type Pattern,
  type PolicySet,
} from "./command.ts";
import {
  buildResourceTable,
  isLabel,
  isSubdomain,
  K8S_VERBS,
  type ResourceTable,
  resourceText,
} from "./kubernetes.ts";
import {
  type ClusterPolicy,
  type ClusterRule,
  MAX_TOKEN_TTL_SECONDS,
  MIN_TOKEN_TTL_SECONDS,
} from "./model.ts";

/** A ServiceAccount, and the groups of end users that it is for. */
export interface CompiledBinding {
  /** Empty: everybody. */
  readonly groups: ReadonlySet<string>;
  readonly namespace: string;
  readonly serviceAccount: string;
}

/** A compiled cluster. Absent keys of the config are empty or false. */
export interface CompiledCluster {
  readonly name: string;
  /** `https://host:port`, without a slash at its end. */
  readonly apiServer: string;
  readonly caCert: string;
  /** Path of the file with the token that creates tokens. */
  readonly tokenFile: string;
  readonly tokenTtlSeconds: number;
  readonly approvals_required: number;
  readonly groups: readonly string[];
  /** Empty: any caller. */
  readonly allowed_callers: readonly string[];
  /** The bindings in the order in which they are tried. */
  readonly bindings: readonly CompiledBinding[];
  /** The namespace of the Secrets that tokens are bound to; empty: no binding. */
  readonly leaseNamespace: string;
  readonly resources: ResourceTable;
  readonly extraResources: readonly ExtraResource[];
  /** The rules, as an allowlist and a denylist of canonical actions. */
  readonly commands: PolicySet;
  /** The rules that allow and reveal. */
  readonly reveals: readonly Pattern[];
  /** The rules that let an apply take fields over without approval. */
  readonly forces: readonly Pattern[];
  /** The rules in words, for agents. */
  readonly words: readonly string[];
}

type Report = (key: string, fault: string | undefined) => void;

const CLUSTER_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/;
const WILD = { verbs: "[a-z]+", resources: "[^ ]+", namespaces: "[^ /]+", names: "[^ ]+" };
type RulePart = keyof typeof WILD;

/** Compiles a cluster; appends its faults to `problems`, each with its key path. */
export function compileCluster(
  { name, cluster, path, compile }: {
    readonly name: string;
    readonly cluster: ClusterPolicy;
    readonly path: string;
    readonly compile: typeof compilePattern;
  },
  problems: string[],
): CompiledCluster {
  const report: Report = (key, fault) => {
    if (fault !== undefined) problems.push(`${path}${key}: ${fault}`);
  };
  if (!CLUSTER_NAME.test(name)) {
    report("", "a cluster name must be 1 to 63 of a-z A-Z 0-9 . _ - and start with a letter or digit");
  }
  report(".api_server", findServerFault(cluster.api_server));
  const { token_ttl_seconds: ttl = 0 } = cluster;
  if (ttl !== 0 && (ttl < MIN_TOKEN_TTL_SECONDS || ttl > MAX_TOKEN_TTL_SECONDS)) {
    const bounds = `${MIN_TOKEN_TTL_SECONDS} and ${MAX_TOKEN_TTL_SECONDS}`;
    report(".token_ttl_seconds", `${ttl} is neither 0 nor between ${bounds}`);
  }
  checkBindings(cluster, report);
  const { table, problems: faults } = buildResourceTable(cluster.extra_resources ?? []);
  for (const { index, problem } of faults) report(`.extra_resources[${index}]`, problem);
  const good = cluster.rules.filter((rule, index) => {
    const found = findRuleFaults(rule, table);
    for (const [key, fault] of found) report(`.rules[${index}].${key}`, fault);
    return found.length === 0;
  });
  if (!cluster.rules.some(({ effect }) => effect !== "deny")) {
    report(".rules", "no rule has the effect allow or require_approval, so every action is denied");
  }
  return {
    name,
    apiServer: cluster.api_server.replace(/(?<!\/)\/+$/, ""),
    caCert: cluster.ca_cert,
    tokenFile: cluster.token_file,
    tokenTtlSeconds: ttl || MIN_TOKEN_TTL_SECONDS,
    approvals_required: cluster.approvals_required ?? 0,
    groups: cluster.groups ?? [],
    allowed_callers: cluster.allowed_callers ?? [],
    bindings: cluster.sa_bindings.map(({ groups, namespace, service_account }) => ({
      groups: new Set(groups),
      namespace,
      serviceAccount: service_account,
    })),
    leaseNamespace: cluster.token_binding?.namespace ?? "",
    resources: table,
    extraResources: cluster.extra_resources ?? [],
    ...compileRules(good, table, compile),
    words: describeClusterRules(good),
  };
}

/** The pattern of a rule's actions. */
export function rulePattern(rule: ClusterRule, table: ResourceTable): string {
  const resources = rule.resources?.map((resource) => {
    const found = table.get(resource);
    return found === undefined ? resource : resourceText(found);
  });
  const part = (key: RulePart, values: readonly string[] | undefined) =>
    `(?:${anyOf(values)?.map(escapePattern).join("|") ?? WILD[key]})`;
  return `^${part("verbs", rule.verbs)} ${part("resources", resources)} ${
    part("namespaces", rule.namespaces)
  }/${part("names", rule.names)}$`;
}

/** The values of a list; `undefined` if the list matches everything. */
function anyOf(values: readonly string[] = []): readonly string[] | undefined {
  return values.length === 0 || values.includes("*") ? undefined : values;
}

function compileRules(
  rules: readonly ClusterRule[],
  table: ResourceTable,
  compile: typeof compilePattern,
): Pick<CompiledCluster, "commands" | "reveals" | "forces"> {
  const patternsOf = (keep: (rule: ClusterRule) => boolean) =>
    rules.filter(keep).map((rule) => compile(rulePattern(rule, table)));
  // The canonical form of an action is not shell syntax, so it is not parsed.
  const unparsed = { ...NO_RULES, shellParse: false };
  const allow = patternsOf(({ effect }) => effect !== "deny");
  const requireApproval = patternsOf(({ effect }) => effect === "require_approval");
  const deny = patternsOf(({ effect }) => effect === "deny");
  return {
    commands: composePolicies([
      { ...unparsed, mode: "allowlist", allow, requireApproval },
      { ...unparsed, mode: "denylist", deny },
    ]),
    reveals: patternsOf(({ effect, reveal }) => reveal === true && effect !== "deny"),
    forces: patternsOf(({ effect, force }) => force === true && effect === "allow"),
  };
}

function findServerFault(url: string): string | undefined {
  const parsed = URL.parse(url);
  if (parsed === null || parsed.protocol !== "https:" || parsed.hostname === "") {
    return `${quoteText(url)} is not an https URL with a host`;
  }
  // Reject a user name or password, because brokers would see it. Reject a query, which has no place in the
  // paths of an API.
  if (parsed.username !== "" || parsed.password !== "") return "contains a user or a password";
  return parsed.search !== "" || parsed.hash !== "" || /[?#]$/.test(url)
    ? `${quoteText(url)} has a query or a fragment`
    : undefined;
}

function checkBindings({ sa_bindings, token_binding }: ClusterPolicy, report: Report): void {
  const bound = token_binding?.namespace;
  const checkNamespace = (key: string, namespace: string) => {
    if (!isLabel(namespace)) report(`${key}.namespace`, `${quoteText(namespace)} is not a namespace`);
  };
  if (sa_bindings.length === 0) report(".sa_bindings", "is empty: at least one is required");
  if (bound !== undefined) checkNamespace(".token_binding", bound);
  for (const [index, { namespace, service_account, groups = [] }] of sa_bindings.entries()) {
    const key = `.sa_bindings[${index}]`;
    checkNamespace(key, namespace);
    if (!isSubdomain(service_account)) {
      report(`${key}.service_account`, `${quoteText(service_account)} is not the name of a ServiceAccount`);
    }
    if (groups.some((group) => group === "" || isUnsafe(group))) {
      report(`${key}.groups`, "a group is empty or contains spaces");
    }
    if (bound === undefined || namespace === bound) continue;
    const fault = `${quoteText(namespace)} is not ${quoteText(bound)} of token_binding`;
    report(
      `${key}.namespace`,
      `${fault}: a token can only be bound to a Secret in the namespace of its ServiceAccount`,
    );
  }
}

function findRuleFaults(
  rule: ClusterRule,
  table: ResourceTable,
): readonly (readonly [key: string, fault: string])[] {
  const check = (part: RulePart, isKnown: (value: string) => boolean, what: (value: string) => string) =>
    (rule[part] ?? []).flatMap((value, index) =>
      value === "*" || isKnown(value)
        ? []
        : [[`${part}[${index}]`, `${quoteText(value)} is not ${what(value)}`] as const]
    );
  const describeResource = (resource: string) => {
    // kubectl also accepts the singular, and the name with its group, so suggest the plural name.
    const meant = [`${resource}s`, `${resource}es`, resource.replace(/\..*/, "")]
      .find((name) => table.has(name));
    const hint = meant === undefined ? "" : ` (did you mean ${quoteText(meant)}?)`;
    return `a resource of the core table nor of extra_resources${hint}`;
  };
  return [
    ...check("verbs", (verb) => (K8S_VERBS as readonly string[]).includes(verb), () => "a verb"),
    ...check("resources", (resource) => table.has(resource), describeResource),
    ...check("namespaces", (namespace) => namespace === "-" || isLabel(namespace), () => "a namespace"),
    ...check("names", (name) => name === "-" || isSubdomain(name), () => "the name of an object"),
    ...(rule.reveal === true && rule.effect === "deny"
      ? [["reveal", "a denied action shows nothing"] as const]
      : []),
    ...(rule.force === true && rule.effect !== "allow"
      ? [["force", "requires the effect allow"] as const]
      : []),
  ];
}

const MAX_RULES = 50;

/**
 * One line for each rule that allows an action, also after an approval. Rules that deny are not shown, as for
 * hosts.
 */
export function describeClusterRules(rules: readonly ClusterRule[]): readonly string[] {
  const allowing = rules.filter(({ effect }) => effect !== "deny");
  const omitted = allowing.length - MAX_RULES;
  return [
    ...allowing.slice(0, MAX_RULES).map(describeRule),
    ...(omitted > 0 ? [`${omitted} more rules are not shown`] : []),
    ...(allowing.length < rules.length ? ["some of this is denied; denied actions are not shown"] : []),
  ];
}

function describeRule({ verbs, resources, namespaces, names, effect, reveal }: ClusterRule): string {
  const where = anyOf(namespaces)?.map((name) =>
    name === "-" ? "without a namespace" : `in namespace ${name}`
  );
  const which = anyOf(names)?.map((name) => name === "-" ? "lists" : name);
  return [
    `${anyOf(verbs)?.join(", ") ?? "any verb"}: ${anyOf(resources)?.join(", ") ?? "any resource"} ${
      where?.join(" or ") ?? "in any namespace"
    }`,
    ...(which === undefined ? [] : [`only ${which.join(" or ")}`]),
    ...(reveal === true ? ["values of Secrets are shown"] : []),
    ...(effect === "require_approval" ? ["a human has to approve"] : []),
  ].join("; ");
}
