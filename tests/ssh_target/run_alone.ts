/**
 * Runs one command with only the permission to connect to the host. It writes a public key to stdout, reads a
 * line with the host and the certificate from stdin, and writes the command's output.
 */
import { systemClock } from "@gateway/shared/clock";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { runCommand } from "../../broker/ssh/run_command.ts";

const key = createEphemeralKey();
const encoder = new TextEncoder();
await Deno.stdout.write(encoder.encode(`${key.publicKeyLine}\n`));
for await (const line of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const hop = { ...JSON.parse(line), key };
  const { stdout } = await runCommand({ clock: systemClock, hops: [hop], command: "echo alone", pty: false });
  await Deno.stdout.write(stdout.head);
  break;
}
