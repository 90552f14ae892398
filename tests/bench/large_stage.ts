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

/** The text of a `signer.json` with a generated policy, and the same with one host changed. */
export async function twoLargeConfigs(path: string): Promise<readonly [string, string]> {
  const text = await Deno.readTextFile(path);
  const changed = text.replace(`"principal": "host:${hostName(7)}"`, `"principal": "host:changed"`);
  if (text === changed) throw new Error("the second config is the same");
  return [text, changed];
}
