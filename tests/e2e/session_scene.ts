import { recordsOf } from "../stage/audit.ts";
import { type ConfigEdit, editConfig, HOST, type Stage, type StageOptions } from "../stage/stage.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";

/** A signer without command policies and limits, so that it allows shells. */
export const OPEN_POLICY: readonly ConfigEdit[] = [
  { path: ["group_command_policies"], value: {} },
  { path: ["sign_rate_limit_per_min"] },
];

/** Permissions of the host in the signer's config. */
export const ALLOW_PTY: ConfigEdit = { path: ["hosts", HOST, "allow_pty"], value: true };

/**
 * A command that ends when its output is no longer read: sshd delivers no signals to root's sessions, and
 * tests may run as root.
 */
export const ENDLESS = "while echo x; do sleep 0.1; done";

export interface SessionScene {
  readonly stage: Stage;
  readonly signer: ServiceProcess;
  readonly mcp: McpProcess;
  readonly client: SessionClient;
  records(): Promise<readonly Record<string, unknown>[]>;
}

export async function withSessions(
  { signer: signerEdits = [], broker = [], targetKind, prepare }: {
    readonly signer?: readonly ConfigEdit[];
    readonly broker?: readonly ConfigEdit[];
    readonly targetKind?: StageOptions["targetKind"];
    /** Extends the installation before the signer starts. */
    readonly prepare?: (stage: Stage) => Promise<void>;
  },
  test: (scene: SessionScene) => Promise<void>,
): Promise<void> {
  const kind = targetKind === undefined ? {} : { targetKind };
  await withStage({ ...kind, signer: [...OPEN_POLICY, ...signerEdits] }, async (stage) => {
    await editConfig(stage.init.mcp_config, broker);
    await prepare?.(stage);
    const signer = await stage.startSigner();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    await test({
      stage,
      signer,
      mcp,
      client: new SessionClient(mcp),
      records: () => recordsOf(stage.init.mcp_audit_log),
    });
  });
}
