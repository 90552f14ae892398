import type { Stage } from "../stage/stage.ts";
import { type PlainLogin, plainLogin } from "./plain_login.ts";

/** A plain login to a host whose shell does not read `.bashrc` for each command: that would be what is measured. */
export async function quickLogin(stage: Stage): Promise<PlainLogin | undefined> {
  if (stage.target.kind === "openssh") {
    const path = `${stage.init.folder}/../ssh/sshd_config`;
    // bash takes itself for started by sshd only at the first level.
    await Deno.writeTextFile(path, "SetEnv SHLVL=2\n", { append: true });
  }
  return await plainLogin(stage);
}
