/** Signs with a key of a vault under the permissions of this process; prints the result. */
import { Agent } from "node:https";
import { connect } from "node:tls";
import { loadAkvCaKey } from "../../shared/ca/azure_key_vault.ts";
import { systemClock } from "@gateway/shared/clock";

const [port = "", ca = "", signIn = "", secret = "", before = "0"] = Deno.args;
// After this text, the engine misreads a key in the answer of the sign-in service.
JSON.parse(before);

/** Connects all host names, including the sign-in service, to the fake. */
class LoopbackAgent extends Agent {
  override createConnection(options: { servername?: string; host?: string }) {
    const servername = options.servername ?? options.host ?? "";
    return connect({ host: "127.0.0.1", port: Number(port), servername, ca });
  }
}

const agent = new LoopbackAgent();
const credential = { tenant_id: "tenant-1", client_id: "client-1", client_secret_env: "CA_SECRET" };
const token = { token: "fake-access-token", expiresOnTimestamp: Date.now() + 3_600_000 };
let result: string;
try {
  const key = await loadAkvCaKey({
    type: "akv",
    vault_url: "https://ca.vault.test",
    key_name: "ssh-ca",
    key_version: "",
    ...(signIn === "secret" && { credential }),
  }, {
    clock: systemClock,
    readEnv: (name) => name === "CA_SECRET" ? secret : undefined,
    agent,
    ...(signIn === "token" && { credential: { getToken: () => Promise.resolve(token) } }),
  });
  const { length } = await key.sign(Uint8Array.of(1));
  result = `${key.algorithm} ${length > 0 ? "signed" : "did not sign"}`;
} catch (error) {
  result = String(error);
}
await Deno.stdout.write(new TextEncoder().encode(result));
agent.destroy();
