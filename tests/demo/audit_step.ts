import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import type { StepResult } from "./reporter.ts";

/** Display names of the services. */
const NAMES = {
  signer: "signer",
  control_plane: "control plane",
  broker: "broker (HTTP)",
  mcp: "broker (MCP)",
} as const;

/** Verifies the audit logs of the services. */
export async function showAudit(
  { init }: Stage,
  services: readonly (keyof typeof NAMES)[],
): Promise<StepResult> {
  const checks = await Promise.all(services.map(async (service) => {
    const log = init[`${service}_audit_log`];
    const key = init[`${service}_audit_key`];
    const output = await runBrokerCtl(["audit", "verify", "--all", "--log", log, "--key", key], init.folder);
    const [found = ""] = new TextDecoder().decode(output.stdout).split("\n");
    return { ok: output.success, text: `${NAMES[service]}: ${found}` };
  }));
  return { ok: checks.every(({ ok }) => ok), shows: checks.map(({ text }) => text).join("\n") };
}
