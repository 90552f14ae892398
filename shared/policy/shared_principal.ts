/**
 * Hosts with one principal: sshd looks at the principal alone, so that a certificate for one of them opens the others.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { finish } from "../clock.ts";
 * import { findUnsharedPrincipals } from "./shared_principal.ts";
 *
 * const hosts = { web01: { principal: "web" }, web02: { principal: "web", shared_principal: true } };
 * const problems = finish(findUnsharedPrincipals(hosts));
 * assert.deepEqual(problems.map((problem) => problem.split(":")[0]), ["hosts.web01.principal"]);
 * ```
 *
 * @module
 */
import { formatKeyPath, quoteText } from "../text.ts";
import type { Steps } from "../clock.ts";
import type { HostPolicy } from "./model.ts";

/** Hosts as far as their principals go, by name. */
export type PrincipalHosts = Readonly<
  Record<
    string,
    { readonly [Key in "principal" | "shared_principal"]?: HostPolicy[Key] | undefined }
  >
>;

/** The hosts that have another's principal and don't say that this is meant, each with its key path. */
export function* findUnsharedPrincipals(hosts: PrincipalHosts): Steps<readonly string[]> {
  return (yield* sharedPrincipals(hosts)).flatMap(([principal, names]) =>
    names.filter((name) => hosts[name]?.shared_principal !== true).map((name) => {
      const other = names.find((each) => each !== name) ?? name;
      return `${formatKeyPath(["hosts", name, "principal"])}: ${quoteText(principal)} is also that of ${
        quoteText(other)
      }, so that a certificate for one opens the other; give each its own, or say shared_principal: true on both`;
    })
  );
}

/** What an operator should know of principals that are shared on purpose; one text for each. */
export function* describeSharedPrincipals(hosts: PrincipalHosts): Steps<readonly string[]> {
  return (yield* sharedPrincipals(hosts)).map(([principal, names]) =>
    `${names.length} hosts share the principal ${quoteText(principal)} (${quoteText(names[0] ?? "")}, ${
      quoteText(names[1] ?? "")
    }${names.length > 2 ? ", …" : ""}): a certificate for one opens the others`
  );
}

/** Only what is shared is collected: of 10,000 hosts with a principal each, nothing. */
function* sharedPrincipals(
  hosts: PrincipalHosts,
): Steps<readonly (readonly [string, readonly string[]])[]> {
  const owners = new Map<string, string>();
  const shared = new Map<string, string[]>();
  for (const name of Object.keys(hosts)) {
    yield;
    const principal = hosts[name]?.principal ?? "";
    if (principal === "") continue;
    const owner = owners.get(principal);
    const names = shared.get(principal);
    if (names !== undefined) names.push(name);
    else if (owner !== undefined) shared.set(principal, [owner, name]);
    else owners.set(principal, name);
  }
  return [...shared];
}
