/**
 * One cluster of the policy: its checks and its compiled form.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { rulePattern } from "./compile_cluster.ts";
 * import { CORE_RESOURCES } from "./kubernetes.ts";
 *
 * const rule = { verbs: ["get", "list"], resources: ["deployments"], namespaces: ["prod"], effect: "allow" } as const;
 * assert.equal(rulePattern(rule, CORE_RESOURCES), "^(?:get|list) (?:deployments\\.apps) (?:prod)/(?:[^ ]+)$");
 * ```
 *
 * @module
 */
import { isUnsafe, quoteText } from "../text.ts";
import type { ExtraResource } from "../wire/cluster.ts";
import {
  type ClusterPolicy,
  type ClusterRule,
  MAX_TOKEN_TTL_SECONDS,
  MIN_TOKEN_TTL_SECONDS,
} from "./cluster_model.ts";
import { describeClusterRules } from "./cluster_words.ts";
import { type CompiledCommandPolicy, composePolicies, type PolicySet } from "./command.ts";
import {
  buildResourceTable,
  isLabel,
  isSubdomain,
  K8S_VERBS,
  type ResourceTable,
  resourceText,
} from "./kubernetes.ts";
import type { compilePattern, Pattern } from "./pattern.ts";

/** Which ServiceAccount an action is done as, for whom. */
export interface CompiledBinding {
  /** Empty: everybody. */
  readonly groups: ReadonlySet<string>;
  readonly namespace: string;
  readonly serviceAccount: string;
}

/** A cluster ready to decide. Absent keys of the config are empty or false here. */
export interface CompiledCluster {
  readonly name: string;
  /** `https://host:port`, without a slash at its end. */
  readonly apiServer: string;
  /** Path of the PEM file. */
  readonly caCert: string;
  /** Path of the file with the token that tokens are made with. */
  readonly tokenFile: string;
  readonly tokenTtlSeconds: number;
  /** In the order of the config. */
  readonly groups: readonly string[];
  /** Empty: any caller. */
  readonly allowedCallers: ReadonlySet<string>;
  /** In the order in which they are tried. */
  readonly bindings: readonly CompiledBinding[];
  /** The namespace of the Secrets that tokens are bound to; empty: they are not bound. */
  readonly leaseNamespace: string;
  readonly resources: ResourceTable;
  readonly extraResources: readonly ExtraResource[];
  /** The rules, as an allowlist and a denylist of canonical actions. */
  readonly commands: PolicySet;
  /** The rules that allow and reveal. */
  readonly reveals: readonly Pattern[];
  /** What the rules allow, for agents. */
  readonly words: readonly string[];
  /** The rules that let an apply take fields over without approval. */
  readonly forces: readonly Pattern[];
}

/** What {@linkcode compileCluster} works on. */
interface ClusterSource {
  readonly name: string;
  readonly cluster: ClusterPolicy;
  /** The key path of the cluster, for problems. */
  readonly path: string;
  readonly compile: typeof compilePattern;
}

const CLUSTER_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/;
const WILD = { verbs: "[a-z]+", resources: "[^ ]+", namespaces: "[^ /]+", names: "[^ ]+" };
type RulePart = keyof typeof WILD;

/** Compiles a cluster; appends to `problems` what is wrong with it, each with its key path. */
export function compileCluster(
  { name, cluster, path, compile }: ClusterSource,
  problems: string[],
): CompiledCluster {
  const report = (key: string, fault: string | undefined) => {
    if (fault !== undefined) problems.push(`${path}${key}: ${fault}`);
  };
  if (!CLUSTER_NAME.test(name)) {
    report("", "a cluster name must be 1 to 63 of a-z A-Z 0-9 . _ - and start with a letter or digit");
  }
  report(".api_server", findServerFault(cluster.api_server));
  report(".token_ttl_seconds", findTtlFault(cluster.token_ttl_seconds ?? 0));
  checkBindings(cluster, report);
  const { table, problems: faults } = buildResourceTable(cluster.extra_resources ?? []);
  for (const { index, problem } of faults) report(`.extra_resources[${index}]`, problem);
  const good = cluster.rules.filter((rule, index) => {
    const found = findRuleFaults(rule, table);
    for (const { key, fault } of found) report(`.rules[${index}].${key}`, fault);
    return found.length === 0;
  });
  if (!cluster.rules.some(({ effect }) => effect !== "deny")) {
    report(".rules", "no rule has the effect allow or require_approval: nothing could be done");
  }
  return {
    name,
    apiServer: cluster.api_server.replace(/(?<!\/)\/+$/, ""),
    caCert: cluster.ca_cert,
    tokenFile: cluster.token_file,
    tokenTtlSeconds: cluster.token_ttl_seconds || MIN_TOKEN_TTL_SECONDS,
    groups: cluster.groups ?? [],
    allowedCallers: new Set(cluster.allowed_callers),
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
  const verbs = alternatives("verbs", rule.verbs);
  const namespaces = alternatives("namespaces", rule.namespaces);
  return `^${verbs} ${alternatives("resources", resources)} ${namespaces}/${
    alternatives("names", rule.names)
  }$`;
}

function compileRules(
  rules: readonly ClusterRule[],
  table: ResourceTable,
  compile: typeof compilePattern,
): Pick<CompiledCluster, "commands" | "reveals" | "forces"> {
  const patternsOf = (keep: (rule: ClusterRule) => boolean) =>
    rules.filter(keep).map((rule) => compile(rulePattern(rule, table)));
  const member = (lists: Pick<CompiledCommandPolicy, "mode" | "allow" | "deny" | "requireApproval">) => ({
    ...lists,
    enforcement: "enforce" as const,
    // The canonical form is no shell's language.
    shellParse: false,
  });
  return {
    commands: composePolicies([
      member({
        mode: "allowlist",
        allow: patternsOf(({ effect }) => effect !== "deny"),
        deny: [],
        requireApproval: patternsOf(({ effect }) => effect === "require_approval"),
      }),
      member({
        mode: "denylist",
        allow: [],
        deny: patternsOf(({ effect }) => effect === "deny"),
        requireApproval: [],
      }),
    ]),
    reveals: patternsOf(({ effect, reveal }) => reveal === true && effect !== "deny"),
    forces: patternsOf(({ effect, force }) => force === true && effect === "allow"),
  };
}

function alternatives(part: RulePart, values: readonly string[] = []): string {
  if (values.length === 0 || values.includes("*")) return `(?:${WILD[part]})`;
  return `(?:${values.map(escapeRegex).join("|")})`;
}

function escapeRegex(text: string): string {
  return text.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
}

function findServerFault(url: string): string | undefined {
  const parsed = URL.parse(url);
  if (parsed === null || parsed.protocol !== "https:" || parsed.hostname === "") {
    return `${quoteText(url)} is not an https URL with a host`;
  }
  // Both would be told to brokers; what is after the host has no place in the paths of an API.
  if (parsed.username !== "" || parsed.password !== "") return "has a user or password in it";
  return parsed.search !== "" || parsed.hash !== "" || /[?#]$/.test(url)
    ? `${quoteText(url)} has a query or a fragment`
    : undefined;
}

function findTtlFault(seconds: number): string | undefined {
  if (seconds === 0 || (seconds >= MIN_TOKEN_TTL_SECONDS && seconds <= MAX_TOKEN_TTL_SECONDS)) {
    return undefined;
  }
  return `${seconds} is neither 0 nor between ${MIN_TOKEN_TTL_SECONDS} and ${MAX_TOKEN_TTL_SECONDS}`;
}

function checkBindings(
  { sa_bindings, token_binding }: ClusterPolicy,
  report: (key: string, fault: string | undefined) => void,
): void {
  if (sa_bindings.length === 0) report(".sa_bindings", "is empty: at least one is required");
  if (token_binding !== undefined && !isLabel(token_binding.namespace)) {
    report(".token_binding.namespace", `${quoteText(token_binding.namespace)} is not a namespace`);
  }
  for (const [index, { namespace, service_account, groups = [] }] of sa_bindings.entries()) {
    const key = `.sa_bindings[${index}]`;
    if (!isLabel(namespace)) report(`${key}.namespace`, `${quoteText(namespace)} is not a namespace`);
    if (!isSubdomain(service_account)) {
      report(`${key}.service_account`, `${quoteText(service_account)} is not the name of a ServiceAccount`);
    }
    if (groups.some((group) => group === "" || isUnsafe(group))) {
      report(`${key}.groups`, "a group is empty or contains blanks");
    }
    if (token_binding !== undefined && namespace !== token_binding.namespace) {
      report(
        `${key}.namespace`,
        `${quoteText(namespace)} is not ${
          quoteText(token_binding.namespace)
        } of token_binding: a token can only be bound to a Secret beside its ServiceAccount`,
      );
    }
  }
}

function findRuleFaults(
  { verbs = [], resources = [], namespaces = [], names = [], effect, reveal, force }: ClusterRule,
  table: ResourceTable,
): readonly { readonly key: string; readonly fault: string }[] {
  const check = (
    part: RulePart,
    values: readonly string[],
    isKnown: (value: string) => boolean,
    what: string,
    hint: (value: string) => string = () => "",
  ) =>
    values.flatMap((value, index) =>
      value === "*" || isKnown(value)
        ? []
        : [{ key: `${part}[${index}]`, fault: `${quoteText(value)} is not ${what}${hint(value)}` }]
    );
  return [
    ...check("verbs", verbs, (verb) => (K8S_VERBS as readonly string[]).includes(verb), "a verb"),
    ...check(
      "resources",
      resources,
      (resource) => table.has(resource),
      "a resource of the core table nor of extra_resources",
      (resource) => {
        // As kubectl has them: singular, or with the group.
        const meant = [`${resource}s`, `${resource}es`, resource.replace(/\..*/, "")].find((name) =>
          table.has(name)
        );
        return meant === undefined ? "" : ` (did you mean ${quoteText(meant)}?)`;
      },
    ),
    ...check(
      "namespaces",
      namespaces,
      (namespace) => namespace === "-" || isLabel(namespace),
      "a namespace",
    ),
    ...check("names", names, (name) => name === "-" || isSubdomain(name), "the name of an object"),
    ...(reveal === true && effect === "deny"
      ? [{ key: "reveal", fault: "nothing is shown of what is denied" }]
      : []),
    ...(force === true && effect !== "allow"
      ? [{ key: "force", fault: "it goes with the effect allow alone" }]
      : []),
  ];
}
