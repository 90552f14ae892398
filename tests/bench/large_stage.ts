import { parse } from "jsonc-parser";
import { generatePolicy, LARGE, type PolicySize } from "./large_config.ts";

/** The CN of a stage's broker. */
export const BROKER = "broker-local";

/** Puts a generated policy into a `signer.json`, in the place of its own. */
export async function putLargePolicy(path: string, size: PolicySize = LARGE): Promise<void> {
  const config = parse(await Deno.readTextFile(path), [], { allowTrailingComma: true });
  const policy = generatePolicy(size, BROKER);
  await Deno.writeTextFile(path, JSON.stringify({ ...config, ...policy }, null, 2));
}
