import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";
import { HOST, type Stage } from "../stage/stage.ts";
import type { LoadOptions } from "./http_load.ts";

/** Returns a one-shot sign request for a host, as a broker sends it. */
export function signBody(host: string = HOST): string {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(5));
  return JSON.stringify({
    host,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: formatPublicKey("ssh-ed25519", writer.bytes()),
    end_user: "bench",
    end_user_groups: null,
  });
}

/** Returns the load options for sign requests of the stage's broker to its signer. */
export async function signLoad(
  { init }: Stage,
  host?: string,
): Promise<Omit<LoadOptions, "connections" | "seconds">> {
  const config = await Deno.readTextFile(init.signer_config);
  return {
    cert: await Deno.readTextFile(init.broker.cert),
    key: await Deno.readTextFile(init.broker.key),
    ca: await Deno.readTextFile(init.mtls_ca),
    port: Number(/"listen": "[^"]*:(\d+)"/.exec(config)?.[1]),
    path: "/v1/sign",
    body: signBody(host),
  };
}
