/**
 * Hosts with one principal: sshd looks at the principal alone, so that a certificate for one of them opens the others.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findUnsharedPrincipals } from "./shared_principal.ts";
 *
 * const hosts = { web01: { principal: "web" }, web02: { principal: "web", shared_principal: true } };
 * assert.deepEqual(findUnsharedPrincipals(hosts).map((problem) => problem.split(":")[0]), ["hosts.web01.principal"]);
 * ```
 *
 * @module
 */
import { formatKeyPath } from "../key_path.ts";
import { quoteText } from "../quote.ts";
import type { HostPolicy } from "./model.ts";

/** Hosts as far as their principals go, by name. */
export type PrincipalHosts = Readonly<
  Record<
    string,
    { readonly [Key in "principal" | "shared_principal"]?: HostPolicy[Key] | undefined }
  >
>;

/** The hosts that have another's principal and don't say that this is meant, each with its key path. */
export function findUnsharedPrincipals(hosts: PrincipalHosts): readonly string[] {
  return sharedPrincipals(hosts).flatMap(([principal, names]) =>
    names.filter((name) => hosts[name]?.shared_principal !== true).map((name) => {
      const other = names.find((each) => each !== name) ?? name;
      return `${formatKeyPath(["hosts", name, "principal"])}: ${quoteText(principal)} is also that of ${
        quoteText(other)
      }, so that a certificate for one opens the other; give each its own, or say shared_principal: true on both`;
    })
  );
}

/** What an operator should know of principals that are shared on purpose; one text for each. */
export function describeSharedPrincipals(hosts: PrincipalHosts): readonly string[] {
  return sharedPrincipals(hosts).map(([principal, names]) =>
    `${names.length} hosts share the principal ${quoteText(principal)} (${quoteText(names[0] ?? "")}, ${
      quoteText(names[1] ?? "")
    }${names.length > 2 ? ", …" : ""}): a certificate for one opens the others`
  );
}

function sharedPrincipals(hosts: PrincipalHosts): readonly (readonly [string, readonly string[]])[] {
  const owners = new Map<string, string[]>();
  for (const [name, { principal = "" }] of Object.entries(hosts)) {
    if (principal === "") continue;
    const names = owners.get(principal);
    if (names === undefined) owners.set(principal, [name]);
    else names.push(name);
  }
  return [...owners].filter(([, names]) => names.length > 1);
}
