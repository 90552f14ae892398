import type { Machine } from "./machine.ts";

const REQUEST = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  },
});

/**
 * Starts a broker over the standard streams, as an MCP client of a user does, and greets it.
 *
 * @returns the version that it says it has
 */
export async function initialize(machine: Machine, user: string, entry: readonly string[]): Promise<string> {
  // The broker ends with its input: that stays open until it has answered.
  const script = `set -e
    cd "$(mktemp -d)"; mkfifo input; exec 3<>input
    runuser -u ${user} -- ${entry.join(" ")} <input 3>&- >output & broker=$!
    printf '%s\\n' '${REQUEST}' >&3
    until grep -q serverInfo output; do kill -0 $broker; sleep 0.1; done
    exec 3>&-; wait $broker || true; cat output`;
  const answer = await machine.must("sh", "-c", script);
  const [line = ""] = answer.split("\n");
  return JSON.parse(line).result.serverInfo.version;
}
