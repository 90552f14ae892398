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
 * Starts a broker over stdio, as an MCP client does, and initializes it.
 *
 * @returns the version in the broker's response
 */
export async function initialize(machine: Machine, user: string, entry: readonly string[]): Promise<string> {
  // The broker stops at the end of its input, so the input stays open until the response.
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
