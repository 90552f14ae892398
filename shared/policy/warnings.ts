// Warnings about a policy that compiles: hosts that brokers cannot connect to, rules without effect, names
// that bypass a seal or a principal, login shells that the command rules are not tested with, and denials
// that a list bypasses.
import { formatKeyPath, quoteText } from "../text.ts";
import type { Steps } from "../clock.ts";
import { decideCommand } from "./command.ts";
import type { CompiledCluster } from "./compile_cluster.ts";
import { type ClusterResource, resourceText } from "./kubernetes.ts";
import type { ClusterPolicy, ClusterRule, CommandPolicy, HostPolicy, PolicyConfig } from "./model.ts";

type Hosts<Key extends keyof HostPolicy> = Readonly<
  Record<string, { readonly [Each in Key]?: HostPolicy[Each] | undefined }>
>;

/** Yields the texts about each host, or about each item of another record, in steps. */
function* textsOf<Item>(
  items: Readonly<Record<string, Item>>,
  describe: (name: string, item: Item) => string | undefined,
): Steps<readonly string[]> {
  const texts: string[] = [];
  for (const [name, item] of Object.entries(items)) {
    yield;
    const text = describe(name, item);
    if (text !== undefined) texts.push(text);
  }
  return texts;
}

/** Finds the hosts that a broker cannot connect to. */
export function describeUnconnectable(hosts: PolicyConfig["hosts"]): readonly string[] {
  return Object.entries(hosts).flatMap(([name, host]) => {
    const missing = (["addr", "host_key"] as const).filter((key) => host[key] === "").join(" and no ");
    const path = formatKeyPath(["hosts", name]);
    return missing === "" ? [] : [`${path}: no ${missing}: brokers list the host but cannot connect`];
  });
}

/** Finds the command policies whose patterns are turned off on purpose, each as a key path. */
export function* findInertPolicies(
  { hosts, command_policies }: {
    readonly hosts: Hosts<"command_policy">;
    readonly command_policies: Readonly<Record<string, CommandPolicy>>;
  },
): Steps<readonly string[]> {
  const find = (path: readonly string[], { mode, allow = [], deny = [] }: CommandPolicy = {}) =>
    mode === "off" && allow.length + deny.length > 0 ? formatKeyPath(path) : undefined;
  return [
    ...yield* textsOf(command_policies, (name, policy) => find(["command_policies", name], policy)),
    ...yield* textsOf(hosts, (name, host) => find(["hosts", name, "command_policy"], host.command_policy)),
  ];
}

/**
 * Finds the hosts that share the principal of another host without declaring it. sshd checks only the
 * principal, so a certificate for one host opens the other.
 */
export function* findUnsharedPrincipals(
  hosts: Hosts<"principal" | "shared_principal">,
): Steps<readonly string[]> {
  return (yield* sharedPrincipals(hosts)).flatMap(([principal, names]) =>
    names.filter((name) => hosts[name]?.shared_principal !== true).map((name) => {
      const other = names.find((each) => each !== name) ?? name;
      return `${formatKeyPath(["hosts", name, "principal"])}: ${quoteText(principal)} is also that of ${
        quoteText(other)
      }, so that a certificate for one opens the other; give each its own, or set shared_principal: true on both`;
    })
  );
}

/** Describes each principal that is shared on purpose. */
export function* describeSharedPrincipals(
  hosts: Hosts<"principal" | "shared_principal">,
): Steps<readonly string[]> {
  return (yield* sharedPrincipals(hosts)).map(([principal, names]) =>
    `${names.length} hosts share the principal ${quoteText(principal)} (${
      names.slice(0, 2).map(quoteText).join(", ")
    }${names.length > 2 ? ", …" : ""}): a certificate for one opens the others`
  );
}

/** Collects only shared principals: nothing for 10,000 hosts with a principal each. */
function* sharedPrincipals(
  hosts: Hosts<"principal">,
): Steps<readonly (readonly [string, readonly string[]])[]> {
  const owners = new Map<string, string>();
  const shared = new Map<string, string[]>();
  for (const [name, { principal = "" }] of Object.entries(hosts)) {
    yield;
    if (principal === "") continue;
    const owner = owners.get(principal);
    const names = shared.get(principal);
    if (names !== undefined) names.push(name);
    else if (owner !== undefined) shared.set(principal, [owner, name]);
    else owners.set(principal, name);
  }
  return [...shared];
}

/**
 * Finds the unsealed hosts whose address and account are those of a sealed host, and which therefore bypass
 * its seal.
 */
export function* describeUnsealedTwins(
  hosts: Readonly<Record<string, Pick<HostPolicy, "addr" | "user" | "sealed_exec">>>,
): Steps<readonly string[]> {
  const accountOf = ({ addr, user }: Pick<HostPolicy, "addr" | "user">) => JSON.stringify([addr, user]);
  const sealed = new Map<string, string>();
  for (const [name, host] of Object.entries(hosts)) {
    yield;
    if (host.sealed_exec === true) sealed.set(accountOf(host), name);
  }
  if (sealed.size === 0) return [];
  return yield* textsOf(hosts, (name, host) => {
    const twin = host.sealed_exec === true || host.addr === "" ? undefined : sealed.get(accountOf(host));
    if (twin === undefined) return undefined;
    const fault = `is not sealed, but has the account of the sealed host ${quoteText(twin)}`;
    return `${formatKeyPath(["hosts", name])}: ${fault}: sessions under this name bypass the seal`;
  });
}

/**
 * The login shells with which `tests/firewall` verifies the command rules. The login shell matters because
 * sshd passes each command to it.
 */
const PROVED = ["sh", "bash", "dash", "ash", "busybox", "ksh", "ksh93", "mksh", "yash", "zsh"];

/**
 * The reason why command rules are not verified for an account with this login shell; `undefined` if they
 * are.
 */
export function findLoginShellRisk(loginShell: string): string | undefined {
  const name = loginShell.slice(loginShell.lastIndexOf("/") + 1);
  if (PROVED.includes(name)) return undefined;
  return `command rules are not proved for the login shell ${name}: it may run other commands than the rules allow ` +
    `(proved: ${PROVED.join(", ")})`;
}

/** Finds the hosts with command rules whose login shell is not verified. */
export function* findUnprovedShells(
  hosts: Hosts<"login_shell">,
  compiled: ReadonlyMap<string, { readonly commands: { readonly restricts: boolean } }>,
): Steps<readonly string[]> {
  return yield* textsOf(hosts, (name, { login_shell: shell }) => {
    const risk = shell === undefined ? undefined : findLoginShellRisk(shell);
    if (risk === undefined || compiled.get(name)?.commands.restricts !== true) return undefined;
    return `${formatKeyPath(["hosts", name, "login_shell"])}: ${risk}`;
  });
}

/**
 * Finds denials that a list bypasses. Rules match the requested action, and a list of all namespaces
 * (`list pods -/-`) is a different action. The result has the first such list for each rule.
 */
export function findListGaps(
  { rules }: Pick<ClusterPolicy, "rules">,
  { commands, resources }: Pick<CompiledCluster, "commands" | "resources">,
): readonly { readonly index: number; readonly list: string }[] {
  return rules.flatMap((rule, index) => {
    if (rule.effect !== "deny" || !covers(rule.verbs, "list") && !covers(rule.verbs, "get")) return [];
    const denied = [...resources.values()].filter(({ resource }) => covers(rule.resources, resource));
    const list = denied.flatMap((resource) => listsOf(rule, resource))
      .find((text) => decideCommand(commands, text).kind !== "denied");
    return list === undefined ? [] : [{ index, list }];
  });
}

/** The lists that contain objects of the rule. */
function listsOf(rule: ClusterRule, resource: ClusterResource): readonly string[] {
  const named = rule.namespaces?.includes("*") === false ? rule.namespaces : [];
  const namespaces = resource.namespaced ? named.filter((namespace) => namespace !== "-") : [];
  return ["-", ...namespaces].map((namespace) => `list ${resourceText(resource)} ${namespace}/-`);
}

function covers(values: readonly string[] | undefined, value: string): boolean {
  return values === undefined || values.length === 0 || values.includes("*") || values.includes(value);
}
