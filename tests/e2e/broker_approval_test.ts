import assert from "node:assert/strict";
import { Client, type ElicitResult } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { denoDir } from "../stage/deno_dir.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceCommand } from "../stage/service_command.ts";
import { type ConfigEdit, editConfig, post, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { BrokerScene } from "./broker_scene.ts";

const GENERATIONS = ["2025-11-25", "2026-07-28"] as const;
type Generation = (typeof GENERATIONS)[number];

interface Human {
  readonly questions: string[];
  answer: ElicitResult;
}

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
        // The client passes on few environment variables; without this one Deno would use another package
        // cache.
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

Deno.test.each(GENERATIONS)(
  "broker serve-mcp (%s) waits for an approver at the control plane until the call is canceled",
  async (mode) => {
    await using scene = await BrokerScene.create({ approvalWaitSeconds: 600 });
    scene.signer.approval = "control plane";
    await using mcp = await McpClient.start(scene.command("serve-mcp"), mode);
    const call = new AbortController();
    const canceled = mcp.run("uptime", { signal: call.signal });
    await poll(() => scene.signer.holding === 1, { what: "the broker to poll" });
    call.abort();
    await assert.rejects(canceled);
    await poll(async () => (await outcomes(scene)).length === 1, { what: "the record" });
    assert.equal((await scene.records())[0]?.["err"], "canceled");
    await poll(() => scene.signer.holding === 0, { what: "the end of the poll" });

    const told: string[] = [];
    const running = mcp.run("echo approved", { onprogress: (message = "") => told.push(message) });
    await poll(() => scene.signer.holding === 1, { what: "the broker to poll again" });
    const polls = scene.signer.polls.length;
    scene.signer.decision.resolve("approved");
    assert.match((await running).text, /\napproved\n/);
    assert.equal(scene.signer.polls.length, polls, "the answer does not wait for the next poll");
    const path = scene.signer.polls.at(-1) ?? "";
    const [, id = ""] = /^\/v1\/sign\/result\/([0-9a-f]{32})\?pubkey=ssh-ed25519\+\S+&wait=8$/.exec(path) ??
      [];
    assert.notEqual(id, "", path);
    // Slow runs also report their duration.
    const waits = told.filter((text) => !/^running for \d+ s$/.test(text));
    assert.deepEqual([...new Set(waits)], [`waiting for approval ${id}`]);
  },
);

const YES: ElicitResult = { action: "accept", content: { approve: true } };

Deno.test.each(GENERATIONS)(
  "broker serve-mcp (%s) requests approval at the client, and runs nothing if declined or canceled (A14)",
  async (mode) => {
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
    for (const action of ["decline", "cancel"] as const) {
      human.answer = { action };
      assert.deepEqual(await mcp.run("uptime"), {
        isError: true,
        text: 'approval declined: "uptime" was not run on "web01"',
      });
      assert.deepEqual((await outcomes(scene)).slice(-2), ["error", "approval_declined"]);
    }
    assert.deepEqual(scene.signer.requests.map(({ approved }) => approved), [false, true, false, false]);
  },
);

const GATED: ConfigEdit = {
  path: ["command_policies", "starter"],
  value: { mode: "off", require_approval: ["^echo"] },
};
const SELF_APPROVE: ConfigEdit = { path: ["callers", "broker-local", "self_approve"], value: true };

async function outcomesIn(path: string): Promise<readonly string[]> {
  const lines = (await Deno.readTextFile(path)).trim().split("\n");
  return lines.map((line) => String(JSON.parse(line).outcome)).filter((outcome) => outcome !== "hosts");
}

Deno.test("broker serve-mcp runs a command approved at its client only with self_approve, recorded as self_approved (A14)", () =>
  withStage({ signer: [GATED] }, async (stage) => {
    await editConfig(stage.init.mcp_config, [{ path: ["approval_via_elicitation"], value: true }]);
    await stage.startSigner();
    const human: Human = { questions: [], answer: YES };
    await using mcp = await McpClient.start(stage.mcpCommand(), "2025-11-25", human);
    const refused = await mcp.run("echo hi");
    assert.equal(refused.isError, true, refused.text);
    assert.match(refused.text, /^command on "web01" requires human approval /);
    assert.deepEqual(await outcomesIn(stage.init.signer_audit_log), [
      "approval-required",
      "approval-required",
    ]);

    await editConfig(stage.init.signer_config, [SELF_APPROVE]);
    const operator = await stage.signerClient("operator");
    assert.equal((await post(operator, "/v1/reload")).status, 200);
    const ran = await mcp.run("echo hi");
    assert.equal(ran.isError, false, ran.text);
    assert.match(ran.text, /\nhi\n/);
    assert.equal(human.questions.length, 2);
    assert.deepEqual((await outcomesIn(stage.init.signer_audit_log)).slice(-3), [
      "approval-required",
      "issued",
      "self_approved",
    ]);
  }));

Deno.test("broker serve-mcp with a real control plane waits until an approver approves or denies", () =>
  withStage({ controlPlane: true, signer: [GATED] }, async (stage: Stage) => {
    await stage.startSigner();
    await stage.startControlPlane();
    await using mcp = await McpClient.start(stage.mcpCommand(), "2025-11-25");
    const approver = await stage.controlPlaneClient("approver");
    for (
      const { approve, shows } of [
        { approve: true, shows: /\nhi\n/ },
        {
          approve: false,
          shows: /^signing cert for "web01": approval not granted \(403\): approval denied$/,
        },
      ]
    ) {
      const told: string[] = [];
      const running = mcp.run("echo hi", { onprogress: (message = "") => told.push(message) });
      await poll(() => told.length > 0, { what: "the broker to wait" });
      const path = `/v1/approvals/${told[0]?.replace("waiting for approval ", "")}`;
      assert.equal((await post(approver, path, { approve })).status, 200);
      assert.match((await running).text, shows);
    }
  }));
