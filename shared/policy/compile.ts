// The policy config, checked as a whole and made ready to decide. Nothing can fail at the time of a request.
import { finish, type Steps } from "../clock.ts";
import { formatKeyPath, quoteText } from "../text.ts";
import { compileCommandLibrary, compilePattern, type Pattern } from "./command.ts";
import { compileCluster, type CompiledCluster } from "./compile_cluster.ts";
import { type CompiledHost, compileHost, findHostProblems } from "./compile_host.ts";
import { type CallerPolicy, MAX_TTL_SECONDS, type PolicyConfig } from "./model.ts";
import { findUnsharedPrincipals } from "./warnings.ts";

/** One row of the callers table. */
export interface CompiledCaller extends CallerPolicy {
  readonly groups: ReadonlySet<string>;
}

/** A policy ready to decide; immutable, swapped as a whole. */
export interface CompiledPolicy {
  readonly hosts: ReadonlyMap<string, CompiledHost>;
  /** No cluster has the name of a host. */
  readonly clusters: ReadonlyMap<string, CompiledCluster>;
  /** Empty: no restriction by groups. The row `_default` is for every caller without a row. */
  readonly callers: ReadonlyMap<string, CompiledCaller>;
  /** The cap of hosts without their own, in seconds. */
  readonly maxTtlSeconds: number;
  /** The source, for the next policy. */
  readonly config: PolicyConfig;
  /** Every pattern by its source, for the next policy. */
  readonly patterns: ReadonlyMap<string, Pattern>;
}

type PolicyCompilation =
  | { readonly kind: "ok"; readonly policy: CompiledPolicy }
  /** Every problem, each with the path of its key. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** The lifetime of a certificate without any configured cap, in seconds. */
const DEFAULT_TTL_SECONDS = 300;

/**
 * Checks and compiles a policy, whole or not at all.
 *
 * @param previous the policy to replace. Its patterns are reused, because compiling them is most of the work, and so
 *   are hosts that are the same object in both configs
 */
export function compilePolicy(config: PolicyConfig, previous?: CompiledPolicy): PolicyCompilation {
  return finish(compilePolicySteps(config, previous));
}

/** The problems that {@linkcode compilePolicy} finds. */
export function findPolicyProblems(config: PolicyConfig): readonly string[] {
  const compiled = compilePolicy(config);
  return compiled.kind === "ok" ? [] : compiled.problems;
}

/** {@linkcode compilePolicy} in steps, for a service that answers requests meanwhile. */
export function* compilePolicySteps(
  config: PolicyConfig,
  previous?: CompiledPolicy,
): Steps<PolicyCompilation> {
  const problems: string[] = [];
  const patterns = new Map<string, Pattern>();
  const compile = (source: string): Pattern => {
    // A pattern has no state, so policies can share it.
    const pattern = patterns.get(source) ?? previous?.patterns.get(source) ?? compilePattern(source);
    patterns.set(source, pattern);
    return pattern;
  };
  checkTtl(config.max_ttl_seconds, "max_ttl_seconds", problems);
  const maxTtlSeconds = config.max_ttl_seconds || DEFAULT_TTL_SECONDS;
  const library = yield* compileCommandLibrary(config, problems, compile);
  const hosts = new Map<string, CompiledHost>();
  const isSame = previous !== undefined && (yield* isSameForHosts(config, previous.config));
  for (const [name, host] of Object.entries(config.hosts)) {
    const path = formatKeyPath(["hosts", name]);
    const known = isSame && previous.config.hosts[name] === host ? previous.hosts.get(name) : undefined;
    // The patterns of a host's own rules must be compiled again: otherwise the next policy would not know them.
    const reused = host.command_policy === undefined ? known : undefined;
    if (reused === undefined) {
      problems.push(...findHostProblems(name, host, path));
      checkTtl(host.max_ttl_seconds ?? 0, `${path}.max_ttl_seconds`, problems);
    }
    checkJump(name, config, problems);
    hosts.set(name, reused ?? compileHost({ name, host, path, library, maxTtlSeconds }, problems));
    yield;
  }
  const clusters = new Map<string, CompiledCluster>();
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    const path = formatKeyPath(["kubernetes", "clusters", name]);
    if (Object.hasOwn(config.hosts, name)) problems.push(`${path}: there is a host of this name`);
    clusters.set(name, compileCluster({ name, cluster, path, compile }, problems));
    yield;
  }
  problems.push(...yield* findUnsharedPrincipals(config.hosts));
  if (problems.length > 0) return { kind: "invalid", problems };
  const callers = new Map(
    Object.entries(config.callers)
      .map(([cn, caller]) => [cn, { ...caller, groups: new Set(caller.allowed_groups) }]),
  );
  return { kind: "ok", policy: { hosts, clusters, callers, maxTtlSeconds, config, patterns } };
}

/** Whether everything that a host is compiled with, besides the host itself, is the same. */
function* isSameForHosts(config: PolicyConfig, previous: PolicyConfig): Steps<boolean> {
  const write = ({ group_command_policies, max_ttl_seconds, command_policies }: PolicyConfig) =>
    JSON.stringify([group_command_policies, max_ttl_seconds, Object.keys(command_policies)]);
  if (write(config) !== write(previous)) return false;
  for (const [name, policy] of Object.entries(config.command_policies)) {
    yield;
    const known = previous.command_policies[name];
    if (policy !== known && JSON.stringify(policy) !== JSON.stringify(known)) return false;
  }
  return true;
}

function checkTtl(seconds: number, path: string, problems: string[]): void {
  if (Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_TTL_SECONDS) return;
  problems.push(`${path}: ${seconds} is not between 0 and ${MAX_TTL_SECONDS}`);
}

function checkJump(name: string, { hosts }: PolicyConfig, problems: string[]): void {
  const path = formatKeyPath(["hosts", name, "jump"]);
  const chain = [name];
  let jump = hosts[name]?.jump ?? "";
  if (jump !== "" && !Object.hasOwn(hosts, jump)) problems.push(`${path}: unknown host ${quoteText(jump)}`);
  // A cycle is reported for the hosts in it, not for those that lead to it.
  while (jump !== "" && Object.hasOwn(hosts, jump) && !chain.includes(jump)) {
    chain.push(jump);
    jump = hosts[jump]?.jump ?? "";
  }
  if (jump !== "" && jump === name) {
    problems.push(`${path}: the chain never ends, ${[...chain, name].map(quoteText).join(" -> ")}`);
  }
}
