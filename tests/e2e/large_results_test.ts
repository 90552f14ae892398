import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { denoDir } from "../stage/deno_dir.ts";
import { BrokerScene } from "./broker_scene.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";

/** What clients take: 1 MiB of one event, of which the result is nearly all. */
const RESULT_BYTES = 1_048_576;

/** Prints so many bytes on each stream. */
const PRINTS = [
  { name: "5 MB of lines", print: "yes 0123456789 | head -c 5000000" },
  { name: "512 KiB on one line", print: "head -c 524288 /dev/zero | tr '\\0' x" },
  { name: "1 MB of controls", print: "head -c 1000000 /dev/zero | tr '\\0' '\\1'" },
  { name: "1 MB that is not text", print: "head -c 1000000 /dev/zero | tr '\\0' '\\377'" },
] as const;

async function connectStdio(scene: BrokerScene): Promise<Client> {
  const { args } = await scene.command("serve-mcp");
  const client = new Client({ name: "test", version: "1" });
  await client.connect(
    new StdioClientTransport({
      command: Deno.execPath(),
      args: [...args],
      env: { DENO_DIR: denoDir() },
      stderr: "ignore",
    }),
  );
  return client;
}

async function takesLargeResults(client: Client, dir: string): Promise<void> {
  // The library checks the result against the schema that the tool shows.
  await client.listTools();
  const call = async (name: string, args: Record<string, unknown>) => {
    const result = await client.callTool({ name, arguments: { server: "web01", ...args } });
    assert.notEqual(result.isError, true, JSON.stringify(result.content));
    assert.ok(new TextEncoder().encode(JSON.stringify(result)).length < RESULT_BYTES - 1000);
    const [block] = result.content;
    const text = block?.type === "text" ? block.text : "";
    return { text, structured: result.structuredContent as Record<string, unknown> };
  };
  for (const { name, print } of PRINTS) {
    const { text, structured } = await call("ssh_execute", { command: `${print}; ${print} >&2` });
    assert.match(text, /\n\[exit=0 serial=\d+\]$/, name);
    assert.ok(Number(structured["stdout_total_bytes"]) > 409_600, name);
    assert.equal(structured["stdout_total_bytes"], structured["stderr_total_bytes"], name);
  }
  const whole = await call("ssh_execute", { command: "yes 0123456789 | head -c 409600" });
  assert.equal(String(whole.structured["stdout"]).length, 409_600);
  const end = await call("ssh_execute", { command: "seq 1000000", tail: true, max_output_bytes: 14 });
  assert.equal(end.structured["stdout"], "99999\n1000000\n");
  assert.match(end.text, /\n1000000\n\[end /);

  for (const content of ["x".repeat(524_288), "\x01".repeat(524_288)]) {
    await Deno.writeTextFile(`${dir}/large`, content);
    const { text, structured } = await call("ssh_get_file", { path: `${dir}/large` });
    assert.ok(text.length < 66_000, `${text.length}`);
    const got = String(structured["content"]);
    assert.equal(structured["base64"] === true ? atob(got) : got, content);
  }
}

Deno.test("a TypeScript client over stdio takes results of any length", async () => {
  await using scene = await BrokerScene.create();
  const client = await connectStdio(scene);
  await takesLargeResults(client, scene.dir);
  await client.close();
});

Deno.test("a TypeScript client over HTTP takes results of any length", async () => {
  await using scene = await McpHttpScene.create();
  const client = await scene.connect(AGENTS[0]);
  await takesLargeResults(client, scene.scene.dir);
  await client.close();
});
