/**
 * Writes the `CONFIG.md` of each service from the schema of its config: `deno task docs:config`.
 *
 * @module
 */
import { brokerConfig } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { settingsSchema } from "@gateway/debate/config";
import { describeConfig } from "@gateway/shared/config";
import { signerConfig } from "@gateway/signer/config";

/** The pages, by their path from the root of the workspace. */
export function configPages(): Readonly<Record<string, string>> {
  return {
    "signer/CONFIG.md": describeConfig({ title: "signer.json", schema: signerConfig }),
    "control_plane/CONFIG.md": describeConfig({ title: "control-plane.json", schema: controlPlaneConfig }),
    "debate/CONFIG.md": describeConfig({ title: "Environment and .env", schema: settingsSchema }),
    "broker/CONFIG.md": describeConfig({ title: "config.json and mcp.json", schema: brokerConfig }),
  };
}

if (import.meta.main) {
  const root = new URL("..", import.meta.url);
  for (const [path, text] of Object.entries(configPages())) {
    await Deno.writeTextFile(new URL(path, root), text);
  }
}
