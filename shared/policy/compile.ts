/**
 * The policy config, checked whole and made ready to decide. Nothing is left to fail at the time of a request.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { compilePolicy } from "@gateway/shared/policy";
 *
 * const compiled = compilePolicy({
 *   hosts: {},
 *   callers: {},
 *   command_policies: { base: { mode: "denylist", deny: ["("] } },
 *   group_command_policies: { web: ["bsae"] },
 *   max_ttl_seconds: 0,
 * });
 * assert.equal(compiled.kind, "invalid");
 * assert.equal(compiled.kind === "invalid" && compiled.problems.length, 2);
 * ```
 *
 * @module
 */
import { formatKeyPath, quoteText } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import { compileCluster, type CompiledCluster } from "./compile_cluster.ts";
import { compileCommandLibrary } from "./compile_command.ts";
import { type CompiledHost, compileHost, findHostProblems } from "./compile_host.ts";
import { type HostPolicy, MAX_TTL_SECONDS, type PolicyConfig } from "./model.ts";
import { checkPattern, type compilePattern, type Pattern, reusePatterns } from "./pattern.ts";
import { findUnsharedPrincipals } from "./shared_principal.ts";

export { findInertPolicies } from "./compile_command.ts";
export { type CompiledHost, describeUnconnectable, type HostSeal } from "./compile_host.ts";
export { describeUnsealedTwins } from "./unsealed_twin.ts";
export { describeSharedPrincipals, type PrincipalHosts } from "./shared_principal.ts";

/** One row of the callers table. */
export interface CompiledCaller {
  /** The groups whose hosts the caller may use; empty: none. */
  readonly groups: ReadonlySet<string>;
  readonly selfApprove: boolean;
  /** End user and groups come from a verified token. */
  readonly requireVerifiedEndUser: boolean;
  /** The forwarders that its requests have to come through; `undefined`: any way. */
  readonly onlyVia: ReadonlySet<string> | undefined;
}

/** A policy ready to decide; immutable, swapped as a whole. */
export interface CompiledPolicy {
  readonly hosts: ReadonlyMap<string, CompiledHost>;
  /** Clusters by logical name; none is a host's. */
  readonly clusters: ReadonlyMap<string, CompiledCluster>;
  /** Empty: no restriction by groups. The row `_default` holds for every caller without one. */
  readonly callers: ReadonlyMap<string, CompiledCaller>;
  /** The cap of hosts that set none, in seconds. */
  readonly maxTtlSeconds: number;
  /** What it was compiled from, for the policy that replaces this one. */
  readonly config: PolicyConfig;
  /** Every pattern of the policy by its source, likewise. */
  readonly patterns: ReadonlyMap<string, Pattern>;
}

/** What became of a {@linkcode PolicyConfig}. */
type PolicyCompilation =
  | { readonly kind: "ok"; readonly policy: CompiledPolicy }
  /** Every problem, each with the path of its key. */
  | { readonly kind: "invalid"; readonly problems: readonly string[] };

/** The life of a certificate where neither host nor global config sets a cap, in seconds. */
const DEFAULT_TTL_SECONDS = 300;

/**
 * Checks and compiles a policy, whole or not at all.
 *
 * @param previous the policy that is replaced; its patterns are taken over, because compiling them is most of the work,
 *   and so are hosts that are the same object in both configs
 */
export function compilePolicy(config: PolicyConfig, previous?: CompiledPolicy): PolicyCompilation {
  return finish(compilePolicySteps(config, previous));
}

/**
 * What {@linkcode compilePolicy} finds wrong, each with the path of its key; for those who decide nothing by the policy,
 * in half the time.
 */
export function findPolicyProblems(config: PolicyConfig): readonly string[] {
  const compiled = finish(compilePolicySteps(config, undefined, checkPattern));
  return compiled.kind === "ok" ? [] : compiled.problems;
}

/** {@linkcode compilePolicy} in steps, for a service that answers requests meanwhile. */
export function* compilePolicySteps(
  config: PolicyConfig,
  previous?: CompiledPolicy,
  compile?: typeof compilePattern,
): Steps<PolicyCompilation> {
  const problems: string[] = [];
  checkTtl(config.max_ttl_seconds, "max_ttl_seconds", problems);
  const maxTtlSeconds = config.max_ttl_seconds > 0 ? config.max_ttl_seconds : DEFAULT_TTL_SECONDS;
  const reuse = reusePatterns(previous?.patterns, compile);
  const library = yield* compileCommandLibrary(config, problems, reuse.compile);
  const hosts = new Map<string, CompiledHost>();
  const isSame = previous !== undefined && (yield* isSameForHosts(config, previous.config));
  const known = isSame ? previous : undefined;
  for (const name of Object.keys(config.hosts)) {
    const host = config.hosts[name];
    if (host === undefined) continue;
    const compiled = known?.config.hosts[name] === host ? known.hosts.get(name) : undefined;
    // The patterns of a host's own rules have to be asked for again: otherwise the next policy would not know them.
    if (compiled !== undefined && host.command_policy === undefined) {
      checkJump(name, host, config, problems);
      hosts.set(name, compiled);
      yield;
      continue;
    }
    const path = formatKeyPath(["hosts", name]);
    problems.push(...findHostProblems(name, host, path));
    checkTtl(host.max_ttl_seconds ?? 0, `${path}.max_ttl_seconds`, problems);
    checkJump(name, host, config, problems);
    hosts.set(name, compileHost({ name, host, path, library, maxTtlSeconds }, problems));
    yield;
  }
  const clusters = new Map<string, CompiledCluster>();
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    const path = formatKeyPath(["kubernetes", "clusters", name]);
    if (Object.hasOwn(config.hosts, name)) problems.push(`${path}: there is a host of this name`);
    clusters.set(name, compileCluster({ name, cluster, path, compile: reuse.compile }, problems));
    yield;
  }
  problems.push(...yield* findUnsharedPrincipals(config.hosts));
  if (problems.length > 0) return { kind: "invalid", problems };
  const callers = compileCallers(config);
  const { patterns } = reuse;
  return { kind: "ok", policy: { hosts, clusters, callers, maxTtlSeconds, config, patterns } };
}

/** Whether all that a host is compiled with besides itself is the same. */
function* isSameForHosts(config: PolicyConfig, previous: PolicyConfig): Steps<boolean> {
  const write = ({ group_command_policies, max_ttl_seconds }: PolicyConfig) =>
    JSON.stringify([group_command_policies, max_ttl_seconds]);
  if (write(config) !== write(previous)) return false;
  const [names, before] = [Object.keys(config.command_policies), Object.keys(previous.command_policies)];
  if (JSON.stringify(names) !== JSON.stringify(before)) return false;
  for (const name of names) {
    yield;
    const [policy, known] = [config.command_policies[name], previous.command_policies[name]];
    if (policy !== known && JSON.stringify(policy) !== JSON.stringify(known)) return false;
  }
  return true;
}

function compileCallers(config: PolicyConfig): ReadonlyMap<string, CompiledCaller> {
  return new Map(
    Object.entries(config.callers).map(([cn, caller]) => [
      cn,
      {
        groups: new Set(caller.allowed_groups),
        selfApprove: caller.self_approve === true,
        requireVerifiedEndUser: caller.require_verified_end_user === true,
        onlyVia: caller.only_via === undefined ? undefined : new Set(caller.only_via),
      },
    ]),
  );
}

function checkTtl(seconds: number, path: string, problems: string[]): void {
  if (Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_TTL_SECONDS) return;
  problems.push(`${path}: ${seconds} is not between 0 and ${MAX_TTL_SECONDS}`);
}

function checkJump(name: string, host: HostPolicy, { hosts }: PolicyConfig, problems: string[]): void {
  const path = formatKeyPath(["hosts", name, "jump"]);
  const chain = [name];
  let jump = host.jump ?? "";
  if (jump !== "" && !Object.hasOwn(hosts, jump)) problems.push(`${path}: unknown host ${quoteText(jump)}`);
  // A cycle is reported at the hosts in it, not at those that lead to it.
  while (jump !== "" && Object.hasOwn(hosts, jump) && !chain.includes(jump)) {
    chain.push(jump);
    jump = hosts[jump]?.jump ?? "";
  }
  if (jump !== "" && jump === name) {
    problems.push(`${path}: the chain never ends, ${[...chain, name].map(quoteText).join(" -> ")}`);
  }
}
