/** A stdio broker with two signers, of which one is killed before or right after its answer is sent. */
import assert from "node:assert/strict";
import { SessionClient } from "../e2e/session_client.ts";
import { McpProcess } from "../e2e/mcp_process.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { editConfig, HOST, post, type Stage } from "../stage/stage.ts";
import { clientOf, type Member, startMember } from "./signers.ts";
import { AnswerKeeper } from "./answer_keeper.ts";

export async function issuedBy({ auditLog }: Member): Promise<readonly string[]> {
  const text = await Deno.readTextFile(auditLog);
  return text.split("\n").flatMap((line) =>
    line.includes('"outcome":"issued"') ? /"serial":(\d+)/.exec(line)?.slice(1) ?? [] : []
  );
}

export class BrokerAtSigners {
  readonly #stage: Stage;
  readonly #processes: Map<Member, ServiceProcess>;
  readonly #keepers: ReadonlyMap<Member, AnswerKeeper>;
  readonly #client: SessionClient;

  private constructor(
    stage: Stage,
    processes: Map<Member, ServiceProcess>,
    { keepers, mcp }: { readonly keepers: ReadonlyMap<Member, AnswerKeeper>; readonly mcp: McpProcess },
  ) {
    this.#stage = stage;
    this.#processes = processes;
    this.#keepers = keepers;
    this.#client = new SessionClient(mcp);
  }

  static async start(stage: Stage, processes: Map<Member, ServiceProcess>): Promise<BrokerAtSigners> {
    const keepers = new Map<Member, AnswerKeeper>();
    for (const member of processes.keys()) {
      const keeper = await AnswerKeeper.open(stage, await clientOf(stage, member, "broker"));
      stage.defer(() => keeper[Symbol.asyncDispose]());
      keepers.set(member, keeper);
    }
    const urls = [...keepers.values()].map(({ port }) => `https://127.0.0.1:${port}`);
    await editConfig(stage.init.mcp_config, [
      { path: ["signer", "url"] },
      { path: ["signer", "urls"], value: urls },
      { path: ["revocation_poll_seconds"], value: 1 },
    ]);
    const mcp = new McpProcess(await stage.mcpCommand());
    stage.defer(() => mcp[Symbol.asyncDispose]());
    await mcp.initialize();
    return new BrokerAtSigners(stage, processes, { keepers, mcp });
  }

  /** Calls a tool as the agent and kills the signer after it has signed and before its answer is sent. */
  async loseAnswer(): Promise<{ readonly lost: string; readonly received: string }> {
    const signed = Promise.withResolvers<{ readonly by: Member; readonly certificate: string }>();
    for (const [by, keeper] of this.#keepers) {
      keeper.onCertificate = (certificate) => signed.resolve({ by, certificate });
    }
    const running = this.#client.call("ssh_execute", { server: HOST, command: "uptime" });
    const { by, certificate } = await signed.promise;
    for (const keeper of this.#keepers.values()) keeper.onCertificate = undefined;
    await this.#kill(by);
    const { isError, text, structured } = await running;
    assert.equal(isError, false, text);
    await this.#restart(by);
    return { lost: certificate, received: String(structured["serial"]) };
  }

  /** Opens a session, kills its signer, and freezes it at the other signer. Returns the serial. */
  async freezeSessionOfDeadSigner(): Promise<string> {
    const opened = await this.#client.call("ssh_session_open", { server: HOST, mode: "exec" });
    assert.equal(opened.isError, false, opened.text);
    const serial = String(opened.structured["serial"]);
    const signer = await this.#signerOf(serial);
    await this.#kill(signer);
    const [other] = [...this.#processes.keys()].filter((member) => member !== signer);
    assert.ok(other !== undefined);
    const operator = await clientOf(this.#stage, other, "operator");
    const body = { kind: "session_id", value: String(opened.structured["session_id"]) };
    const { status, text } = await post(operator, "/v1/freeze", body);
    assert.equal(status, 200, text);
    const isTold = async () =>
      (await Deno.readTextFile(other.auditLog)).includes(`revoked serial=${serial} `);
    await poll(isTold, { what: "the broker to tell the signer that is left" });
    await this.#restart(signer);
    return serial;
  }

  async #signerOf(serial: string): Promise<Member> {
    for (const member of this.#processes.keys()) {
      if ((await issuedBy(member)).includes(serial)) return member;
    }
    throw new Error(`nobody has signed ${serial}`);
  }

  async #kill(member: Member): Promise<void> {
    await this.#processes.get(member)?.stop("SIGKILL");
    await this.#keepers.get(member)?.end();
  }

  async #restart(member: Member): Promise<void> {
    this.#processes.set(member, await startMember(this.#stage, member));
    await this.#keepers.get(member)?.listen();
  }
}
