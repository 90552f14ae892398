import { parse } from "jsonc-parser";
import { generatePolicy, hostName, LARGE, type PolicySize } from "./large_config.ts";

/** The CN of a stage's broker. */
export const BROKER = "broker-local";

/** Puts a generated policy into a `signer.json`, in the place of its own. */
export async function putLargePolicy(path: string, size: PolicySize = LARGE): Promise<void> {
  const config = parse(await Deno.readTextFile(path), [], { allowTrailingComma: true });
  const policy = generatePolicy(size, BROKER);
  await Deno.writeTextFile(path, JSON.stringify({ ...config, ...policy }, null, 2));
}

/** Puts a generated policy beside what a `signer.json` has. */
export async function addLargePolicy(path: string, size: PolicySize = LARGE): Promise<void> {
  const config = parse(await Deno.readTextFile(path), [], { allowTrailingComma: true });
  const policy = generatePolicy(size, BROKER);
  const { allowed_groups: own } = config.callers[BROKER];
  const { allowed_groups: all = [] } = policy.callers[BROKER] ?? {};
  const callers = {
    ...policy.callers,
    [BROKER]: { ...config.callers[BROKER], allowed_groups: [...own, ...all] },
  };
  // The rules for all hosts: a bastion can't have any.
  const { _default: ofAll, ...rules } = config.group_command_policies;
  const merged = {
    ...config,
    hosts: { ...policy.hosts, ...config.hosts },
    callers,
    command_policies: { ...policy.command_policies, ...config.command_policies },
    group_command_policies: { ...policy.group_command_policies, local: ofAll, ...rules },
  };
  await Deno.writeTextFile(path, JSON.stringify(merged, null, 2));
}

/** The text of a `signer.json` with a generated policy, and the same with one host changed. */
export async function twoLargeConfigs(path: string): Promise<readonly [string, string]> {
  const text = await Deno.readTextFile(path);
  const changed = text.replace(`"principal": "host:${hostName(7)}"`, `"principal": "host:changed"`);
  if (text === changed) throw new Error("the second config is the same");
  return [text, changed];
}
