/**
 * For which login shells the command rules are proved: sshd hands a command to the account's login shell, and what a
 * text means is decided there. The differential test of `tests/firewall` runs all of these.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { findLoginShellRisk } from "@gateway/shared/policy";
 *
 * assert.equal(findLoginShellRisk("/bin/bash"), undefined);
 * assert.match(findLoginShellRisk("/usr/bin/fish") ?? "", /^nothing is proved for/);
 * ```
 *
 * @module
 */
import { formatKeyPath } from "../text.ts";
import type { Steps } from "../clock.ts";

const PROVED = ["sh", "bash", "dash", "ash", "busybox", "ksh", "ksh93", "mksh", "yash", "zsh"];

/** Why command rules mean little to an account with this login shell (an absolute path); `undefined`: proved. */
export function findLoginShellRisk(loginShell: string): string | undefined {
  const name = loginShell.slice(loginShell.lastIndexOf("/") + 1);
  if (PROVED.includes(name)) return undefined;
  return `nothing is proved for ${name} as a login shell: it may run other commands than the rules allowed ` +
    `(proved: ${PROVED.join(", ")})`;
}

/** The hosts with command rules whose login shell is not proved: each key path of a config, and why. */
export function* findUnprovedShells(
  hosts: Readonly<Record<string, { readonly login_shell?: string }>>,
  compiled: ReadonlyMap<string, { readonly commands: { readonly restricts: boolean } }>,
): Steps<readonly string[]> {
  const texts: string[] = [];
  for (const name of Object.keys(hosts)) {
    yield;
    const shell = hosts[name]?.login_shell;
    const risk = shell === undefined ? undefined : findLoginShellRisk(shell);
    if (risk === undefined || compiled.get(name)?.commands.restricts !== true) continue;
    texts.push(`${formatKeyPath(["hosts", name, "login_shell"])}: ${risk}`);
  }
  return texts;
}
