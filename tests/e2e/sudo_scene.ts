import { startSudoHost, SUDO_ACCOUNTS, type SudoHost } from "../ssh_target/sudo_host.ts";
import { recordsOf } from "../stage/audit.ts";
import { editConfig, type Stage } from "../stage/stage.ts";
import { type SessionScene, withSessions } from "./session_scene.ts";

export const SUDO_HOST = "sudo01";

export interface SudoScene extends SessionScene {
  readonly host: SudoHost;
  /** The last record of an outcome in the signer's log and in the broker's log. */
  lastRecords(
    outcomes: { readonly signer: string; readonly broker: string },
  ): Promise<readonly Record<string, unknown>[]>;
}

export function withSudoHost(
  keys: Readonly<Record<string, unknown>>,
  test: (scene: SudoScene) => Promise<void>,
): Promise<void> {
  let host: SudoHost | undefined;
  const prepare = async (stage: Stage) => {
    const started = await startSudoHost({
      caPublicKeyLine: stage.init.ssh_ca_public_key,
      principal: `host:${SUDO_HOST}`,
    });
    stage.defer(() => started.close());
    host = started;
    const value = {
      addr: `127.0.0.1:${started.port}`,
      user: started.user,
      host_key: started.hostKeyLine,
      principal: `host:${SUDO_HOST}`,
      groups: ["local"],
      allow_sudo: true,
      allowed_sudo_users: [SUDO_ACCOUNTS.any.name, SUDO_ACCOUNTS.narrow.name],
      allow_pty: true,
      allow_file_transfer: true,
      ...keys,
    };
    const path = ["hosts", SUDO_HOST];
    await editConfig(stage.init.signer_config, [{ path, value }]);
    await editConfig(stage.init.mcp_config, [{ path: ["networks", -1], value: value.addr }]);
  };
  return withSessions({ prepare }, async (scene) => {
    if (host === undefined) throw new TypeError("The host with sudo was not started");
    await test({
      ...scene,
      host,
      async lastRecords({ signer, broker }) {
        const signed = await recordsOf(scene.stage.init.signer_audit_log);
        return [[signed, signer], [await scene.records(), broker] as const].map(([records, outcome]) =>
          (records as typeof signed).findLast((record) => record["outcome"] === outcome) ?? {}
        );
      },
    });
  });
}
