import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { Client, type ElicitResult } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { issueLeaf } from "../../ctl/identities/x509.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { poll } from "../stage/poll.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import type { ServiceCommand } from "../stage/service_command.ts";
import { type ConfigEdit, editConfig, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { BrokerScene } from "./broker_scene.ts";

const GENERATIONS = ["2025-11-25", "2026-07-28"] as const;
type Generation = (typeof GENERATIONS)[number];

/** What the human at an MCP client sees and says. */
interface Human {
  readonly questions: string[];
  readonly answer: ElicitResult;
}

/** The official client at the broker's stdio frontend. */
class McpClient implements AsyncDisposable {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async start(
    command: Promise<ServiceCommand>,
    generation: Generation,
    human?: Human,
  ): Promise<McpClient> {
    const client = new Client({ name: "test", version: "1" }, {
      capabilities: human === undefined ? {} : { elicitation: { form: {} } },
      versionNegotiation: { mode: generation === "2026-07-28" ? { pin: generation } : "legacy" },
    });
    if (human !== undefined) {
      client.setRequestHandler("elicitation/create", ({ params }) => {
        human.questions.push(params.message);
        return human.answer;
      });
    }
    const { args } = await command;
    await client.connect(
      new StdioClientTransport({
        command: Deno.execPath(),
        args: [...args],
        // Of the environment it passes little on; without it Deno would look elsewhere for the packages.
        env: { DENO_DIR: denoDir() },
        stderr: "ignore",
      }),
    );
    return new McpClient(client);
  }

  async run(
    command: string,
    options: { signal?: AbortSignal; onprogress?: (message?: string) => void } = {},
  ) {
    const { onprogress, ...rest } = options;
    const result = await this.#client.callTool({
      name: "ssh_execute",
      arguments: { server: "web01", command },
    }, {
      ...rest,
      ...(onprogress === undefined
        ? {}
        : { onprogress: ({ message }) => onprogress(message), resetTimeoutOnProgress: true }),
    });
    const [block] = result.content;
    return { isError: result.isError === true, text: block?.type === "text" ? block.text : "" };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
  }
}

async function outcomes(scene: BrokerScene): Promise<readonly string[]> {
  return (await scene.records()).map((record) => String(record["outcome"]));
}

Deno.test.each(GENERATIONS)("broker serve-mcp (%s) waits for the control plane's human", async (mode) => {
  await using scene = await BrokerScene.create({ approvalWaitSeconds: 600 });
  scene.signer.approval = "control plane";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), mode);
  const told: string[] = [];
  const running = mcp.run("echo approved", { onprogress: (message = "") => told.push(message) });
  await poll(() => scene.signer.holding === 1, { what: "the broker to poll" });
  const polls = scene.signer.polls.length;
  scene.signer.decision.resolve("approved");
  assert.match((await running).text, /\napproved\n/);
  assert.equal(scene.signer.polls.length, polls, "the answer does not wait for the next poll");
  const [path = ""] = scene.signer.polls;
  const [, id = ""] = /^\/v1\/sign\/result\/([0-9a-f]{32})\?pubkey=ssh-ed25519\+\S+&wait=8$/.exec(path) ?? [];
  assert.notEqual(id, "", path);
  // What takes longer than some seconds is told too.
  const waits = told.filter((text) => !/^running for \d+ s$/.test(text));
  assert.deepEqual([...new Set(waits)], [`waiting for approval ${id}`]);
});

Deno.test("broker serve-mcp tells that an approval did not come in time", async () => {
  await using scene = await BrokerScene.create({ approvalWaitSeconds: 1 });
  scene.signer.approval = "control plane";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), "2025-11-25");
  const late = await mcp.run("uptime");
  assert.equal(late.isError, true);
  assert.match(
    late.text,
    /^signing cert for "web01": approval not granted within deadline \(id [0-9a-f]{32}\)$/,
  );
});

Deno.test("broker serve-mcp tells that an approval was denied", async () => {
  await using scene = await BrokerScene.create({ approvalWaitSeconds: 600 });
  scene.signer.approval = "control plane";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), "2025-11-25");
  scene.signer.decision.resolve("denied");
  assert.deepEqual(await mcp.run("uptime"), {
    isError: true,
    text: 'signing cert for "web01": approval not granted (403): approval denied',
  });
});

Deno.test("broker serve-mcp does not wait where it is not told to, and names the approval", async () => {
  await using scene = await BrokerScene.create();
  scene.signer.approval = "control plane";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), "2025-11-25");
  assert.match(
    (await mcp.run("uptime")).text,
    /requires human approval \(id [0-9a-f]{32}\); client is not configured to wait$/,
  );
  assert.deepEqual(scene.signer.polls, []);
});

Deno.test.each(GENERATIONS)("broker serve-mcp (%s) stops waiting when the call is canceled", async (mode) => {
  await using scene = await BrokerScene.create({ approvalWaitSeconds: 600 });
  scene.signer.approval = "control plane";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), mode);
  const call = new AbortController();
  const running = mcp.run("uptime", { signal: call.signal });
  await poll(() => scene.signer.holding === 1, { what: "the broker to poll" });
  call.abort();
  await assert.rejects(running);
  await poll(async () => (await outcomes(scene)).length === 1, { what: "the record" });
  assert.equal((await scene.records())[0]?.["err"], "canceled");
  scene.signer.approval = "none";
  assert.match((await mcp.run("echo next")).text, /\nnext\n/);
});

Deno.test("broker serve-http waits for the control plane's human as long as its client does", async () => {
  await using scene = await BrokerScene.create({ approvalWaitSeconds: 600 });
  scene.signer.approval = "control plane";
  await using _broker = await ServiceProcess.start(await scene.command("serve-http"));
  const { certPem, keyPem } = await issueLeaf(scene.pki, { subject: "CN=agent-1", usage: "client" });
  using client = new JsonClient({
    clock: systemClock,
    baseUrl: `https://${scene.listen}`,
    cert: certPem,
    key: keyPem,
    ca: scene.pki.certPem,
    timeoutMs: 60_000,
  });
  const run = (signal?: AbortSignal) =>
    client.request({
      method: "POST",
      path: "/v1/ssh_run",
      body: { host: "web01", command: "echo hi" },
      ...(signal === undefined ? {} : { signal }),
    });
  const hangUp = new AbortController();
  const given = run(hangUp.signal);
  await poll(() => scene.signer.holding === 1, { what: "the broker to poll" });
  hangUp.abort();
  await assert.rejects(given, { code: "canceled" });
  await poll(async () => (await outcomes(scene)).length === 1, { what: "the record" });
  await poll(() => scene.signer.holding === 0, { what: "the end of the poll" });

  const waiting = run();
  await poll(() => scene.signer.holding === 1, { what: "the broker to poll again" });
  scene.signer.decision.resolve("approved");
  assert.equal((await waiting).status, 200);
});

const YES: ElicitResult = { action: "accept", content: { approve: true } };

Deno.test.each(GENERATIONS)("broker serve-mcp (%s) asks the human at the client", async (mode) => {
  await using scene = await BrokerScene.create({ approvalViaElicitation: true });
  scene.signer.approval = "caller";
  const human: Human = { questions: [], answer: YES };
  await using mcp = await McpClient.start(scene.command("serve-mcp"), mode, human);
  assert.match((await mcp.run("echo \u202eapproved")).text, /approved\n/);
  assert.deepEqual(human.questions, [
    String.raw`Approve running "echo \u202eapproved" on "web01"? ` +
    "Host policy requires approval (require_approval:.*).",
  ]);
  assert.deepEqual(await outcomes(scene), ["error", "approval_granted", "executed"]);
  assert.deepEqual(scene.signer.requests.map(({ approved }) => approved), [false, true]);
});

Deno.test.each(
  GENERATIONS.flatMap((mode) =>
    (["decline", "cancel"] as const).map((action) => ({ mode, action, answer: { action } }))
  ),
)("broker serve-mcp ($mode) runs nothing when the human says $action (A14)", async ({ mode, answer }) => {
  await using scene = await BrokerScene.create({ approvalViaElicitation: true });
  scene.signer.approval = "caller";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), mode, { questions: [], answer });
  assert.deepEqual(await mcp.run("uptime"), {
    isError: true,
    text: 'approval declined: "uptime" was not run on "web01"',
  });
  assert.deepEqual(await outcomes(scene), ["error", "approval_declined"]);
  assert.deepEqual(scene.signer.requests.map(({ approved }) => approved), [false]);
});

Deno.test.each(GENERATIONS)("broker serve-mcp (%s) asks nobody at a client without a human", async (mode) => {
  await using scene = await BrokerScene.create({ approvalViaElicitation: true });
  scene.signer.approval = "caller";
  await using mcp = await McpClient.start(scene.command("serve-mcp"), mode);
  assert.match((await mcp.run("uptime")).text, /^command on "web01" requires human approval /);
});

const GATED: ConfigEdit = {
  path: ["command_policies", "starter"],
  value: { mode: "off", require_approval: ["^echo"] },
};
const SELF_APPROVE: ConfigEdit = { path: ["callers", "broker-local", "self_approve"], value: true };

async function outcomesIn(path: string): Promise<readonly string[]> {
  const lines = (await Deno.readTextFile(path)).trim().split("\n");
  return lines.map((line) => String(JSON.parse(line).outcome));
}

Deno.test.each([
  {
    name: "runs what its human approves, and the signer records it as self_approved",
    edits: [GATED, SELF_APPROVE],
    ran: true,
  },
  { name: "runs nothing without self_approve, whatever its human says", edits: [GATED], ran: false },
])(
  "broker serve-mcp at a real signer $name (A14)",
  ({ edits, ran }) =>
    withStage({ signer: edits }, async (stage) => {
      await editConfig(stage.init.mcp_config, [{ path: ["approval_via_elicitation"], value: true }]);
      await stage.startSigner();
      const human: Human = { questions: [], answer: YES };
      await using mcp = await McpClient.start(stage.mcpCommand(), "2025-11-25", human);
      const { isError, text } = await mcp.run("echo hi");
      assert.equal(isError, !ran, text);
      assert.match(text, ran ? /\nhi\n/ : /^command on "web01" requires human approval /);
      assert.equal(human.questions.length, 1);
      const signed = await outcomesIn(stage.init.signer_audit_log);
      assert.deepEqual(
        signed.filter((outcome) => outcome !== "hosts"),
        ran ? ["approval-required", "issued", "self_approved"] : ["approval-required", "approval-required"],
      );
    }),
);

Deno.test.each([
  { name: "approves", approve: true, shows: /\nhi\n/ },
  {
    name: "denies",
    approve: false,
    shows: /^signing cert for "web01": approval not granted \(403\): approval denied$/,
  },
])(
  "broker serve-mcp at a real control plane waits until a human $name",
  ({ approve, shows }) =>
    withStage({ controlPlane: true, signer: [GATED] }, async (stage: Stage) => {
      await stage.startSigner();
      await stage.startControlPlane();
      await using mcp = await McpClient.start(stage.mcpCommand(), "2025-11-25");
      const told: string[] = [];
      const running = mcp.run("echo hi", { onprogress: (message = "") => told.push(message) });
      await poll(() => told.length > 0, { what: "the broker to wait" });
      const id = told[0]?.replace("waiting for approval ", "");
      const approver = await stage.controlPlaneClient("approver");
      const decided = await approver.request({
        method: "POST",
        path: `/v1/approvals/${id}`,
        body: { approve },
      });
      assert.equal(decided.status, 200);
      assert.match((await running).text, shows);
    }),
);
