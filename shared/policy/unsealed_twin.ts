/**
 * Accounts that have a sealed and an unsealed name: whoever takes the unsealed one goes round the seal.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { finish } from "../clock.ts";
 * import { describeUnsealedTwins } from "./unsealed_twin.ts";
 *
 * const account = { addr: "10.0.0.1:22", user: "deploy" };
 * const hosts = { web01: { ...account, sealed_exec: true }, web: account };
 * assert.equal(finish(describeUnsealedTwins(hosts)).length, 1);
 * ```
 *
 * @module
 */
import { formatKeyPath, quoteText } from "../text.ts";
import type { Steps } from "../clock.ts";
import type { HostPolicy } from "./model.ts";

/** What an operator should know of hosts that are the account of a sealed one, each with its key path. */
export function* describeUnsealedTwins(
  hosts: Readonly<Record<string, Pick<HostPolicy, "addr" | "user" | "sealed_exec">>>,
): Steps<readonly string[]> {
  const accountOf = (name: string) => JSON.stringify([hosts[name]?.addr, hosts[name]?.user]);
  const names = Object.keys(hosts);
  const sealed = new Map<string, string>();
  for (const name of names) {
    yield;
    if (hosts[name]?.sealed_exec === true) sealed.set(accountOf(name), name);
  }
  if (sealed.size === 0) return [];
  const texts: string[] = [];
  for (const name of names) {
    yield;
    if (hosts[name]?.sealed_exec === true || hosts[name]?.addr === "") continue;
    const twin = sealed.get(accountOf(name));
    if (twin === undefined) continue;
    texts.push(
      `${formatKeyPath(["hosts", name])}: is not sealed and is the account of ${
        quoteText(twin)
      }, which is: ` +
        "sessions under this name go round the seal",
    );
  }
  return texts;
}
