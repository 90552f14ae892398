/** Signers are restarted one after another, and the tables upgraded after the first one, while clients ask whichever takes the connection. */
import assert from "node:assert/strict";
import { POSTGRES_SCHEMA } from "../../signer/live/state/schema.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import type { Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addMember, type Member, SIGN, startMember } from "./signers.ts";
import { upgradeTables } from "./upgrade_tables.ts";

const CLIENTS = 4;
/** Answers between two steps: enough that each client has asked both. */
const ENOUGH = 60;

/** Asks without end; what no signer took the connection for goes to the other one. */
class Load {
  readonly statuses = new Map<number, number>();
  /** Whose connection broke when the request may have been there. */
  readonly underWay: string[] = [];
  isOver = false;
  readonly #members: readonly Member[];
  readonly #client: Deno.HttpClient;

  constructor(members: readonly Member[], client: Deno.HttpClient) {
    this.#members = members;
    this.#client = client;
  }

  get answers(): number {
    return this.statuses.values().reduce((sum, count) => sum + count, 0);
  }

  async run(first: number): Promise<void> {
    for (let at = first; !this.isOver; at++) {
      const status = await this.#ask(at) ?? await this.#ask(at + 1);
      if (status === undefined) throw new Error("neither signer takes connections");
      if (status > 0) this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** The status; 0 when the connection broke; `undefined` when there was none. */
  async #ask(at: number): Promise<number | undefined> {
    const { listen = "", name = "" } = this.#members[at % this.#members.length] ?? {};
    try {
      const response = await fetch(`https://${listen}${SIGN.path}`, {
        method: "POST",
        body: JSON.stringify(SIGN.body),
        headers: { "content-type": "application/json" },
        client: this.#client,
      });
      await response.body?.cancel();
      return response.status;
    } catch (error) {
      const text = `${error} ${(error as Error).cause ?? ""}`;
      if (/refused/i.test(text)) return undefined;
      this.underWay.push(`${name}: ${text}`);
      return 0;
    }
  }
}

async function clientOf({ init }: Stage): Promise<Deno.HttpClient> {
  const { cert, key } = init.broker;
  return Deno.createHttpClient({
    cert: await Deno.readTextFile(cert),
    key: await Deno.readTextFile(key),
    caCerts: [await Deno.readTextFile(init.mtls_ca)],
  });
}

Deno.test({
  name:
    "a rolling restart of signers, and an upgrade of their tables, refuses no request but those under way",
  ignore: isPostgresMissing,
  async fn() {
    await using server = await PostgresServer.start();
    await withStage({}, async (stage) => {
      const members: Member[] = [];
      const processes: ServiceProcess[] = [];
      const edits = [{ path: ["sign_rate_limit_per_min"] }];
      for (const name of ["signer-a", "signer-b"]) {
        const member = await addMember(stage, { name, state_db: server.url(), edits });
        members.push(member);
        processes.push(await startMember(stage, member));
      }
      using client = await clientOf(stage);
      const load = new Load(members, client);
      const running = Promise.all(Array.from({ length: CLIENTS }, (_, first) => load.run(first)));
      const more = () => {
        const from = load.answers;
        return Promise.race([
          poll(() => load.answers >= from + ENOUGH, { what: "answers" }),
          running.then(() => assert.fail("the load has ended")),
        ]);
      };
      await more();
      for (const [index, member] of members.entries()) {
        const stopped = await processes[index]?.stop("SIGTERM");
        assert.equal(stopped?.code, 0, `${processes[index]?.log}`);
        await more();
        if (index === 0) await upgradeTables(server.url(), POSTGRES_SCHEMA, ["certificates", "freezes"]);
        processes[index] = await startMember(stage, member);
        await more();
      }
      load.isOver = true;
      await running;
      assert.deepEqual([...load.statuses.keys()], [200]);
      assert.ok(load.underWay.length <= 2 * CLIENTS, load.underWay.join("\n"));
      assert.equal(await server.sql("SELECT count(*) FROM signer.instances"), "2");
      const [before, after] = [POSTGRES_SCHEMA.oldest, POSTGRES_SCHEMA.migrations.length + 1];
      assert.equal(
        await server.sql("SELECT version, oldest FROM signer.schema_version"),
        `${after}|${before}`,
      );
    });
  },
});
