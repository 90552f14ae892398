import { McpProcess } from "../e2e/mcp_process.ts";
import { SessionClient } from "../e2e/session_client.ts";
import { residentBytes } from "../stage/proc_file.ts";
import { freePort } from "../stage/free_port.ts";
import type { Stage } from "../stage/stage.ts";
import { InspectedHeap } from "./inspected_heap.ts";
import { quickLogin } from "./quick_login.ts";
import type { Row } from "./row.ts";
import { quantile } from "./statistics.ts";
import { timed } from "./timed.ts";

const LISTS = 200;
const MAX_LIST_MS = 20;
const EARLY_CALLS = 1000;
const CALLS = 10_000;
const ACTIVE = 8;
/** Compiled code grows for a while. A leak of 300 bytes a call is more. */
const MAX_GROWTH = 1.1;
/** One call in so many asks for the servers; the others run a command, through the signer and both audit logs. */
const LIST_SERVERS_EVERY = 4;

/** A broker over stdio that is called again and again: how fast it lists its tools, and whether it grows. */
export async function benchToolCalls(stage: Stage): Promise<readonly Row[]> {
  await quickLogin(stage);
  const { args: [run = "", ...args] } = await stage.mcpCommand();
  const inspector = `127.0.0.1:${freePort()}`;
  await using mcp = new McpProcess({ args: [run, `--inspect=${inspector}`, ...args] });
  await mcp.initialize();
  using heap = await InspectedHeap.connect(inspector);
  const list = await listRow(mcp);
  const client = new SessionClient(mcp);
  const ids: string[] = [];
  while (ids.length < ACTIVE) ids.push(await client.open());
  const call = async (id: string, count: number) => {
    const { isError, text } = count % LIST_SERVERS_EVERY === 0
      ? await client.call("ssh_list_servers", {})
      : await client.exec(id, "true");
    if (isError) throw new Error(text);
  };
  const callMany = async (calls: number) => {
    await Promise.all(ids.map(async (id) => {
      for (let count = 0; count < calls / ACTIVE; count++) await call(id, count);
    }));
    // The size of the process follows the collector's mood: it says nothing about growth after 10,000 calls.
    return await heap.liveBytes();
  };
  const early = await callMany(EARLY_CALLS);
  const late = await callMany(CALLS - EARLY_CALLS);
  const resident = await residentBytes(mcp.pid);
  return [list, {
    what: `broker's live heap after ${CALLS} tool calls (${(resident / 1e6).toFixed(0)} MB resident)`,
    measured: `${(late / 1e6).toFixed(1)} MB`,
    baseline: `${(early / 1e6).toFixed(1)} MB after ${EARLY_CALLS}`,
    ratio: (late / early).toFixed(2),
    target: `at most ${MAX_GROWTH}`,
    met: late <= MAX_GROWTH * early,
  }];
}

async function listRow(mcp: McpProcess): Promise<Row> {
  const first = await timed(() => mcp.request("tools/list", {}));
  const times = [first];
  while (times.length < LISTS) times.push(await timed(() => mcp.request("tools/list", {})));
  const sorted = times.toSorted((a, b) => a - b);
  const p99 = quantile(sorted, 0.99);
  return {
    what: `tools/list over stdio, p99 of ${LISTS}`,
    measured: `${p99.toFixed(1)} ms`,
    baseline: `${first.toFixed(1)} ms the first one`,
    ratio: "",
    target: `under ${MAX_LIST_MS} ms`,
    met: p99 < MAX_LIST_MS,
  };
}
