import { McpProcess } from "../e2e/mcp_process.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { plainLogin } from "./plain_login.ts";
import type { Row } from "./row.ts";
import { median } from "./statistics.ts";
import { timed } from "./timed.ts";

const RUNS = 20;
const BYTES = 524_288;
const TARGET = 2;

/** Files of 512 KiB through the MCP tools against `scp` with a plain key on the same sshd, in turns. */
export async function benchTransfer(stage: Stage): Promise<readonly Row[]> {
  const login = await plainLogin(stage);
  if (login === undefined) return [];
  const dir = stage.init.folder;
  const [here, there] = [`${dir}/here`, `${dir}/there`];
  const bytes = new Uint8Array(BYTES);
  for (let at = 0; at < BYTES; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  await Deno.writeFile(here, bytes);
  const content = bytes.toBase64();
  await using mcp = new McpProcess(await stage.mcpCommand());
  await mcp.initialize();
  const call = async (name: string, args: object) => {
    const { isError, content: [block] } = await mcp.call(name, { server: HOST, path: there, ...args });
    if (isError === true) throw new Error(`${name}: ${block.text}`);
  };
  const ways = {
    ssh_put_file: {
      broker: () => call("ssh_put_file", { content, content_base64: true }),
      scp: () => login.scp(here, login.remote(there)),
    },
    ssh_get_file: {
      broker: () => call("ssh_get_file", {}),
      scp: () => login.scp(login.remote(there), `${dir}/back`),
    },
  };
  const rows: Row[] = [];
  for (const [what, { broker, scp }] of Object.entries(ways)) {
    await broker();
    await scp();
    const times = { broker: [] as number[], scp: [] as number[] };
    for (let run = 0; run < RUNS; run++) {
      times.broker.push(await timed(broker));
      times.scp.push(await timed(scp));
    }
    const [ours, theirs] = [median(times.broker), median(times.scp)];
    rows.push({
      what: `${what}, 512 KiB, median of ${RUNS}`,
      measured: `${ours.toFixed(0)} ms`,
      baseline: `${theirs.toFixed(0)} ms scp with a plain key`,
      ratio: (ours / theirs).toFixed(2),
      target: `at most ${TARGET}`,
      met: ours <= theirs * TARGET,
    });
  }
  await mcp.end();
  return rows;
}
