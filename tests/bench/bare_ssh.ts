import { systemClock } from "@gateway/shared/clock";
import { signResponse } from "@gateway/shared/wire";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { timed } from "./timed.ts";

/**
 * What a one-shot is without a broker: the SSH connection, with a certificate as the broker gets one and by the same
 * library, and the command. How long that takes, in milliseconds; the certificate is there before.
 */
export async function bareSsh(stage: Stage, command: string): Promise<() => Promise<number>> {
  const signer = await stage.signerClient("broker");
  const { target } = stage;
  return async () => {
    const key = createEphemeralKey();
    const body = {
      host: HOST,
      role: "target",
      purpose: "oneshot",
      command,
      public_key: key.publicKeyLine,
      end_user: "bench",
      end_user_groups: null,
    };
    const answer = await signer.request({ method: "POST", path: "/v1/sign", body });
    const { certificate = "" } = signResponse.parse(answer.body);
    const addr = `127.0.0.1:${target.port}`;
    const hop = { name: HOST, addr, hostKey: target.hostKeyLine, user: target.user, certificate, key };
    return await timed(() => runCommand({ clock: systemClock, hops: [hop], command, pty: false }));
  };
}
