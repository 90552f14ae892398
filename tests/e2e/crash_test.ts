import assert from "node:assert/strict";
import { formatPublicKey, SshWriter } from "@gateway/shared/ssh";
import { assertLogVerifies, recordsOf } from "../stage/audit.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { poll } from "../stage/poll.ts";
import { HOST, post, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { denoDir } from "../stage/deno_dir.ts";
import { BrokerScene } from "./broker_scene.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";

const ROUNDS = 3;
const WORKERS = 8;

function publicKeyLine(): string {
  const writer = new SshWriter();
  writer.text("ssh-ed25519");
  writer.string(new Uint8Array(32).fill(3));
  return formatPublicKey("ssh-ed25519", writer.bytes());
}

/** Requests certificates until the signer has ended. Returns the acknowledged serials. */
async function signUntilGone(stage: Stage, onIssued: (serial: bigint) => void): Promise<void> {
  const client = await stage.signerClient("broker");
  const body = {
    host: HOST,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: publicKeyLine(),
  };
  while (true) {
    try {
      const answer = await post(client, "/v1/sign", body);
      const { serial } = answer.body as { serial?: bigint | number };
      if (answer.status === 200 && serial !== undefined) onIssued(BigInt(serial));
    } catch {
      return;
    }
  }
}

async function serialsOf(log: string): Promise<ReadonlySet<bigint>> {
  return new Set((await recordsOf(log)).map(({ serial }) => BigInt(serial as bigint | number)));
}

Deno.test("after kill -9 of the signer during writes the audit chain verifies and is complete", () =>
  withStage({}, async (stage) => {
    const acknowledged: bigint[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const signer = await stage.startSigner();
      const before = acknowledged.length;
      const workers = Array.from(
        { length: WORKERS },
        () => signUntilGone(stage, (serial) => acknowledged.push(serial)),
      );
      await poll(() => acknowledged.length >= before + 100 + 37 * round, {
        what: "certificates",
        intervalMs: 1,
      });
      await signer.stop("SIGKILL");
      await Promise.all(workers);
    }
    const { signer_audit_log: log, signer_audit_key: key } = stage.init;
    await (await stage.startSigner()).stop();
    await assertLogVerifies(log, key);
    const recorded = await serialsOf(log);
    const missing = acknowledged.filter((serial) => !recorded.has(serial));
    assert.deepEqual(missing, []);
    assert.ok(acknowledged.length >= 300);
  }));

Deno.test("after kill -9 of the broker during writes the audit chain verifies and is complete", () =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    const acknowledged: bigint[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const broker = await stage.startBroker();
      const before = acknowledged.length;
      const workers = Array.from({ length: 4 }, async () => {
        const client = await stage.brokerClient();
        while (true) {
          try {
            const answer = await post(client, "/v1/ssh_run", { host: HOST, command: "uptime" });
            if (answer.status === 200) {
              acknowledged.push(BigInt((answer.body as { serial: bigint | number }).serial));
            }
          } catch {
            return;
          }
        }
      });
      await poll(() => acknowledged.length >= before + 4 + round, { what: "commands" });
      await broker.stop("SIGKILL");
      await Promise.all(workers);
    }
    const { broker_audit_log: log, broker_audit_key: key } = stage.init;
    await (await stage.startBroker()).stop();
    await assertLogVerifies(log, key);
    const recorded = await serialsOf(log);
    assert.deepEqual(acknowledged.filter((serial) => !recorded.has(serial)), []);
  }));

Deno.test("a signer killed during a request causes an upstream failure, and the broker reconnects after its restart", () =>
  withStage({}, async (stage) => {
    const signer = await stage.startSigner();
    await stage.startBroker();
    const client = await stage.brokerClient();
    signer.kill("SIGSTOP");
    const answering = post(client, "/v1/ssh_run", { host: HOST, command: "uptime" });
    // The stopped signer does not read the bytes that the broker has sent.
    await poll(hasUnreadBytes, {
      what: "the request to be under way",
    });
    signer.kill("SIGKILL");
    const answer = await answering;
    const { code, detail = "" } = answer.body as { code?: string; detail?: string };
    assert.deepEqual([answer.status, code], [502, "upstream_failure"]);
    assert.doesNotMatch(detail, /127\.0\.0\.1|:\d{4,5}/, "no address of the inside");
    assert.equal((await recordsOf(stage.init.broker_audit_log))[0]?.["outcome"], "error");

    await stage.startSigner();
    const recovered = await post(client, "/v1/ssh_run", { host: HOST, command: "uptime" });
    assert.equal(recovered.status, 200, "a restarted signer is found again");
  }));

/** Whether a connection has bytes that its process has not read (`/proc/net/tcp`, rx_queue). */
async function hasUnreadBytes(): Promise<boolean> {
  const table = await readProcFile("/proc/net/tcp");
  return table.split("\n").some((line) => / 01 [0-9A-F]{8}:(?!00000000)[0-9A-F]{8} /.test(line));
}

/** The limit of clients: 1 MiB for one event, nearly all of it the result. */
const RESULT_BYTES = 1_048_576;

/** Prints this many bytes on each stream. */
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
  // The library validates the result against the tool's output schema.
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

Deno.test("a TypeScript client over stdio receives results of any length", async () => {
  await using scene = await BrokerScene.create();
  const client = await connectStdio(scene);
  await takesLargeResults(client, scene.dir);
  await client.close();
});

Deno.test("a TypeScript client over HTTP receives results of any length", async () => {
  await using scene = await McpHttpScene.create();
  const client = await scene.connect(AGENTS[0]);
  await takesLargeResults(client, scene.scene.dir);
  await client.close();
});
