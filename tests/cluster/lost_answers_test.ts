import assert from "node:assert/strict";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { openUpstreams } from "@gateway/shared/http";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { withStage } from "../stage/with_stage.ts";
import { BrokerAtSigners, issuedBy } from "./broker_at_signers.ts";
import { addMember, type Member, SIGN, startMember, tlsOf } from "./signers.ts";
import { POSTGRES_SCHEMA } from "../../signer/live/state/schema.ts";
import type { Stage } from "../stage/stage.ts";
import { upgradeTables } from "./upgrade_tables.ts";

const CLIENTS = 16;
/** The number of answers between two steps. */
const ENOUGH = 200;
/** After this time a client considers an answer lost, and detects a signer that hangs. */
const TIMEOUT_MS = 1_000;

/** Requests certificates from two signers endlessly like a broker. It repeats lost requests. */
class Load {
  readonly received = new Set<string>();
  readonly refusals: string[] = [];
  lost = 0;
  isOver = false;

  async run(client: ReturnType<ReturnType<typeof openUpstreams>["client"]>): Promise<void> {
    while (!this.isOver) {
      try {
        const { status, body } = await client.request(SIGN);
        if (status === 200) this.received.add(String((body as { serial: bigint | number }).serial));
        else this.refusals.push(`${status} ${JSON.stringify(body)}`);
      } catch (error) {
        if (!(error instanceof AppError) || error.code !== "answer_lost") throw error;
        this.lost++;
      }
    }
  }
}

async function busiestFirst(members: readonly Member[]): Promise<readonly [Member, Member]> {
  const [a, b] = members;
  assert.ok(a !== undefined && b !== undefined);
  return (await issuedBy(a)).length > (await issuedBy(b)).length ? [a, b] : [b, a];
}

/** The serial in the form that a list uses. */
function digits(serial: string): string {
  return BigInt(serial).toString(16).padStart(16, "0");
}

async function query(list: string, certificate: string): Promise<string | undefined> {
  const { stdout } = await new Deno.Command("ssh-keygen", { args: ["-Q", "-f", list, certificate] }).output();
  return /: (ok|REVOKED)$/m.exec(new TextDecoder().decode(stdout))?.[1];
}

Deno.test({
  name:
    "certificates of a killed or stopped signer that nobody received are on every signer's revocation list",
  ignore: isPostgresMissing,
  async fn(test) {
    await using server = await PostgresServer.start();
    await withStage({}, async (stage) => {
      const edits = [{ path: ["sign_rate_limit_per_min"] }];
      const members: Member[] = [];
      const processes = new Map<Member, ServiceProcess>();
      for (const name of ["signer-a", "signer-b"]) {
        const member = await addMember(stage, { name, state_db: server.url(), edits });
        members.push(member);
        processes.set(member, await startMember(stage, member));
      }
      const { cert, key, ca } = await tlsOf(stage, "operator");
      using operator = Deno.createHttpClient({ cert, key, caCerts: [ca] });
      const listOf = async ({ listen }: Member) => {
        const reply = await fetch(`https://${listen}/v1/krl?after=0`, { client: operator });
        return reply.status === 200 ? (await reply.bytes()).toHex() : await reply.text();
      };
      const isOn = async (member: Member, serial: string) => (await listOf(member)).includes(digits(serial));
      const broker = await BrokerAtSigners.start(stage, processes);

      await test.step("the certificate of a lost response: the broker retries, and ssh-keygen reports the lost one as revoked", async () => {
        const { lost, received } = await broker.loseAnswer();
        const [list, certificate] = [`${stage.init.folder}/list`, `${stage.init.folder}/lost-cert.pub`];
        await Deno.writeTextFile(certificate, lost);
        for (const member of members) {
          await poll(async () => {
            await Deno.writeFile(list, Uint8Array.fromHex(await listOf(member)));
            return await query(list, certificate) === "REVOKED";
          }, { what: `the lost certificate on the list of ${member.name}` });
          assert.equal(await isOn(member, received), false);
        }
      });

      await test.step("the certificate of a frozen session whose signer was killed right after the freeze", async () => {
        const serial = await broker.freezeSessionOfDeadSigner();
        for (const member of members) {
          await poll(() => isOn(member, serial), {
            what: `the session's certificate on that of ${member.name}`,
          });
        }
      });

      await test.step("the certificates of two signers under load", async () => {
        const urls = members.map(({ listen }) => `https://${listen}`);
        const upstreams = openUpstreams({
          ...await tlsOf(stage, "broker"),
          ...{ urls, clock: systemClock, random: systemRandom, what: "the signer", timeoutMs: TIMEOUT_MS },
        });
        stage.defer(() => upstreams.close());
        const before = new Set((await Promise.all(members.map(issuedBy))).flat());
        const load = new Load();
        const client = upstreams.client({ maxConnections: CLIENTS });
        const running = Promise.all(Array.from({ length: CLIENTS }, () => load.run(client)));
        const more = () => {
          const from = load.received.size;
          const isEnough = () => load.received.size >= from + ENOUGH;
          return Promise.race([
            poll(isEnough, { what: "answers" }),
            running.then(() => assert.fail("the load has ended")),
          ]);
        };
        await more();
        // A client keeps using one signer as long as that signer answers.
        const [first, second] = await busiestFirst(members);
        await processes.get(first)?.stop("SIGKILL");
        await more();
        processes.set(first, await startMember(stage, first));
        const lostBefore = load.lost;
        processes.get(second)?.kill("SIGSTOP");
        await poll(() => load.lost > lostBefore, { what: "requests that nobody answers" });
        await more();
        processes.get(second)?.kill("SIGCONT");
        await more();
        load.isOver = true;
        await running;
        assert.deepEqual(load.refusals, []);
        assert.ok(load.lost > 0);
        const issued = (await Promise.all(members.map(issuedBy))).flat();
        assert.equal(new Set(issued).size, issued.length, "no serial twice");
        const nobodys = issued.filter((serial) => !load.received.has(serial) && !before.has(serial));
        for (const member of members) {
          await poll(async () => {
            const list = await listOf(member);
            return nobodys.every((serial) => list.includes(digits(serial)));
          }, { what: `${nobodys.length} certificates that nobody has on the list of ${member.name}` });
          const list = await listOf(member);
          const had = [...load.received].filter((serial) => list.includes(digits(serial)));
          assert.deepEqual(had, [], "none that somebody has");
        }
      });
    });
  },
});

const CLIENTS_ROLLING_RESTART = 4;
/** Answers between two steps, so many that each client has used both signers. */
const ENOUGH_ROLLING_RESTART = 60;

/** Sends requests endlessly. If no signer accepts the connection, the request goes to the other one. */
class LoadRollingRestart {
  readonly statuses = new Map<number, number>();
  /** Requests whose connection broke when the request may already have arrived. */
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

  /** The status, 0 if the connection broke, or `undefined` if there was no connection. */
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

Deno.test(
  "a rolling restart of signers with a table upgrade fails only requests in progress",
  { ignore: isPostgresMissing },
  async () => {
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
      const load = new LoadRollingRestart(members, client);
      const running = Promise.all(
        Array.from({ length: CLIENTS_ROLLING_RESTART }, (_, first) => load.run(first)),
      );
      const more = () => {
        const from = load.answers;
        return Promise.race([
          poll(() => load.answers >= from + ENOUGH_ROLLING_RESTART, { what: "answers" }),
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
      assert.ok(load.underWay.length <= 2 * CLIENTS_ROLLING_RESTART, load.underWay.join("\n"));
      assert.equal(await server.sql("SELECT count(*) FROM signer.instances"), "2");
      const [before, after] = [POSTGRES_SCHEMA.oldest, POSTGRES_SCHEMA.migrations.length + 1];
      assert.equal(
        await server.sql("SELECT version, oldest FROM signer.schema_version"),
        `${after}|${before}`,
      );
    });
  },
);
