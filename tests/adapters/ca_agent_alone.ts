/** Signs with a key of an ssh-agent under the permissions of this process; prints the result. */
import { connectToAgent, loadAgentCaKey } from "../../shared/ca/agent.ts";
import { systemClock } from "@gateway/shared/clock";

const [socket = "", publicKeyPath = ""] = Deno.args;
let result: string;
try {
  const publicKey = await Deno.readTextFile(publicKeyPath);
  const key = await loadAgentCaKey({ publicKey, connect: () => connectToAgent(socket), clock: systemClock });
  result = `signed ${(await key.sign(Uint8Array.of(1))).length}`;
} catch (error) {
  result = String(error);
}
await Deno.stdout.write(new TextEncoder().encode(result));
