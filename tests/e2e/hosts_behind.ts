import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";

/** Hosts that are each reached through the previous one. */
export interface HostsBehind {
  readonly dir: string;
  /** In the order of the route. The bastion of the first host is {@linkcode HOST}. */
  readonly names: readonly string[];
}

/** Starts hosts behind the host of a config and adds them to the config. `defer` stops them. */
export async function addHostsBehind(
  { dir, names, configPath, caPublicKeyLine, defer }: HostsBehind & {
    /** The policy of the signer, or of a broker in local mode. */
    readonly configPath: string;
    readonly caPublicKeyLine: string;
    readonly defer: (end: () => Promise<void>) => void;
  },
): Promise<void> {
  let jump = HOST;
  for (const name of names) {
    const own = `${dir}/${name}`;
    await Deno.mkdir(own);
    const target = await startSshTarget({
      caPublicKeyLine,
      principals: { [currentUser()]: [`host:${name}`] },
      dir: own,
    });
    defer(() => target.close());
    const host = {
      addr: `127.0.0.1:${target.port}`,
      user: target.user,
      host_key: target.hostKeyLine,
      principal: `host:${name}`,
      groups: ["local"],
      jump,
      allow_pty: true,
      allow_file_transfer: true,
    };
    await editConfig(configPath, [
      { path: ["hosts", name], value: host },
      { path: ["hosts", jump, "allow_as_bastion"], value: true },
    ]);
    jump = name;
  }
}

/** Adds hosts behind a stage's host, which the broker cannot reach directly, without policies. */
export async function addHostsToStage(stage: Stage, { dir, names }: HostsBehind): Promise<void> {
  await addHostsBehind({
    dir,
    names,
    configPath: stage.init.signer_config,
    caPublicKeyLine: stage.init.ssh_ca_public_key,
    defer: (end) => stage.defer(end),
  });
  await editConfig(stage.init.signer_config, [{ path: ["group_command_policies"], value: {} }]);
}
