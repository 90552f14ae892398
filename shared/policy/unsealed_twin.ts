/**
 * Accounts that have a sealed and an unsealed name: whoever takes the unsealed one goes round the seal.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeUnsealedTwins } from "./unsealed_twin.ts";
 *
 * const account = { addr: "10.0.0.1:22", user: "deploy" };
 * assert.equal(describeUnsealedTwins({ web01: { ...account, sealed_exec: true }, web: account }).length, 1);
 * ```
 *
 * @module
 */
import { formatKeyPath } from "../key_path.ts";
import { quoteText } from "../quote.ts";
import type { HostPolicy } from "./model.ts";

/** What an operator should know of hosts that are the account of a sealed one, each with its key path. */
export function describeUnsealedTwins(
  hosts: Readonly<Record<string, Pick<HostPolicy, "addr" | "user" | "sealed_exec">>>,
): readonly string[] {
  const accountOf = (name: string) => JSON.stringify([hosts[name]?.addr, hosts[name]?.user]);
  const names = Object.keys(hosts);
  const sealed = new Map(
    names.filter((name) => hosts[name]?.sealed_exec === true).map((name) => [accountOf(name), name]),
  );
  if (sealed.size === 0) return [];
  return names.flatMap((name) => {
    const twin = sealed.get(accountOf(name));
    if (twin === undefined || hosts[name]?.sealed_exec === true) return [];
    return [
      `${formatKeyPath(["hosts", name])}: is not sealed and is the account of ${
        quoteText(twin)
      }, which is: ` +
      "sessions under this name go round the seal",
    ];
  });
}
