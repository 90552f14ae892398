import { createEnvelopeKey } from "@gateway/shared/envelope";
import type { InstalledShim } from "../shim/installed_shim.ts";
import { type ConfigEdit, HOST, type Stage } from "../stage/stage.ts";

export function hostKeys(keys: Readonly<Record<string, unknown>>): ConfigEdit[] {
  return Object.entries(keys).map(([key, value]) => ({ path: ["hosts", HOST, key], value }));
}

export function sealedBy(shim: InstalledShim): ConfigEdit[] {
  const { name } = shim.format;
  return hostKeys({ sealed_exec: true, envelope: name, shim_command: `${shim.folder}/gateway-shim` });
}

/** Installs the key of a stage's signer for a shim. */
export async function trustSigner(shim: InstalledShim, stage: Stage): Promise<void> {
  await shim.writeKeys(shim.format.keyLine(createEnvelopeKey(await Deno.readFile(stage.init.envelope_key))));
}
