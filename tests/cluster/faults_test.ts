/**
 * Two signers and two PostgreSQL servers, and everything that can go wrong with them while freezes, grants and
 * certificates are asked for: what was acknowledged must hold. `FAULT_ROUNDS` says how often; 1 by default.
 */
import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { type Attempt, findContradictions } from "./checker.ts";
import { addMember, clientOf, type Member, readiness, SIGN, startMember } from "./signers.ts";

const ROUNDS = Number(Deno.env.get("FAULT_ROUNDS") ?? "1");
const SUBJECTS = ["u1", "u2", "u3", "u4"] as const;
/** How long a stopped process is stopped. */
const STOPPED_MS = 5_000;

type Client = Awaited<ReturnType<typeof clientOf>>;
type Answer = Awaited<ReturnType<Client["request"]>>;

/** One after another, with chance. */
function pick<T>(items: readonly T[]): T {
  return items[Math.floor(Math.random() * items.length)] as T;
}

class Run {
  readonly freezes: Attempt[] = [];
  readonly unfreezes: Attempt[] = [];
  readonly signs: Attempt[] = [];
  /** Of certificates that came. */
  readonly serials: bigint[] = [];
  /** Grants that were acknowledged, and not taken back. */
  readonly grants = new Set<string>();
  readonly revoked = new Set<string>();
  readonly #operators: readonly Client[];
  readonly #brokers: readonly Client[];
  #isOver = false;

  constructor(operators: readonly Client[], brokers: readonly Client[]) {
    this.#operators = operators;
    this.#brokers = brokers;
  }

  /** Asks until the end; rejects when something can't be. */
  start(): Promise<unknown> {
    return Promise.all([
      ...SUBJECTS.map((subject) => this.#freezeAndUnfreeze(subject)),
      ...this.#brokers.map((broker) => this.#sign(broker)),
      this.#grant(),
    ]);
  }

  end(): void {
    this.#isOver = true;
  }

  async #freezeAndUnfreeze(value: string): Promise<void> {
    while (!this.#isOver) {
      const subject = { kind: "end_user", value };
      const ask = (path: string, body: unknown) =>
        pick(this.#operators).request({ method: "POST", path, body });
      await this.#attempt(this.freezes, value, () => ask("/v1/freeze", { ...subject, reason: "" }));
      await pause(Math.random() * 40);
      await this.#attempt(this.unfreezes, value, () => ask("/v1/unfreeze", subject));
      await pause(Math.random() * 20);
    }
  }

  async #sign(broker: Client): Promise<void> {
    while (!this.#isOver) {
      const end_user = pick(SUBJECTS);
      const answer = await this.#attempt(
        this.signs,
        end_user,
        () => broker.request({ ...SIGN, body: { ...SIGN.body, end_user } }),
      );
      if (answer?.status === 200) this.serials.push(BigInt((answer.body as { serial: bigint }).serial));
      await pause(answer === undefined ? 50 : 2);
    }
  }

  async #grant(): Promise<void> {
    while (!this.#isOver) {
      const made = await tried(() =>
        pick(this.#operators).request({
          method: "POST",
          path: "/v1/policy/hosts/web01/grants",
          body: { allow: ["^true$"], ttl_seconds: 3600 },
        })
      );
      await pause(100);
      if (made?.status !== 201) continue;
      const { id } = made.body as { readonly id: string };
      if (Math.random() < 0.5) {
        this.grants.add(id);
        continue;
      }
      const gone = await tried(() =>
        pick(this.#operators).request({ method: "DELETE", path: `/v1/policy/grants/${id}` })
      );
      if (gone?.status === 200) this.revoked.add(id);
    }
  }

  async #attempt(log: Attempt[], subject: string, ask: () => Promise<Answer>): Promise<Answer | undefined> {
    const asked = performance.now();
    const answer = await tried(ask);
    const { status } = answer ?? { status: 0 };
    // What the state database did not take in time may be in it.
    const result = status === 200 ? "done" : status === 403 || status === 429 ? "refused" : "unknown";
    log.push({ subject, asked, ended: performance.now(), result });
    return answer;
  }
}

async function tried(ask: () => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch {
    return undefined;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function checkAudit(
  stage: Stage,
  members: readonly Member[],
  serials: readonly bigint[],
): Promise<void> {
  const issued = new Map<bigint, number>();
  for (const { auditLog, auditKey } of members) {
    const verified = await runBrokerCtl(
      ["audit", "verify", "--all", "--log", auditLog, "--key", auditKey],
      stage.init.folder,
    );
    assert.match(
      new TextDecoder().decode(verified.stdout),
      /^OK: \d+ entries, chain intact.*all signatures valid/,
    );
    for (const line of (await Deno.readTextFile(auditLog)).trimEnd().split("\n")) {
      const { outcome, serial } = parseJson(line) as {
        readonly outcome: string;
        readonly serial: bigint | number;
      };
      if (outcome === "issued") issued.set(BigInt(serial), (issued.get(BigInt(serial)) ?? 0) + 1);
    }
  }
  for (const serial of serials) {
    assert.equal(issued.get(BigInt(serial)), 1, `serial ${serial} is in one audit log, once`);
  }
}

Deno.test({
  name: "nothing that signers acknowledged is contradicted when they and their database fail",
  ignore: isPostgresMissing,
  async fn() {
    await using primary = await PostgresServer.start();
    await using standby = await primary.startStandby();
    await withStage({}, async (stage) => {
      const state_db = `postgres://gateway@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/gateway`;
      const members = [
        await addMember(stage, { name: "signer-a", state_db }),
        await addMember(stage, { name: "signer-b", state_db }),
      ] as const;
      const processes: ServiceProcess[] = [];
      for (const member of members) processes.push(await startMember(stage, member));
      const clients = (who: "operator" | "broker") =>
        Promise.all(members.map((member) => clientOf(stage, member, who, STOPPED_MS + 3_000)));
      const run = new Run(await clients("operator"), await clients("broker"));
      const running = run.start();
      const isReady = (member: Member) =>
        poll(async () => (await readiness(member)) === "200 ready", { what: member.name, intervalMs: 20 });
      const restart = async (index: 0 | 1) => {
        processes[index]?.kill("SIGKILL");
        await processes[index]?.status;
        processes[index] = await startMember(stage, members[index]);
      };
      await pause(1_000);
      for (let round = 0; round < ROUNDS; round++) {
        const stopped = (round % 2) as 0 | 1;
        processes[stopped]?.kill("SIGSTOP");
        await pause(STOPPED_MS);
        processes[stopped]?.kill("SIGCONT");
        await isReady(members[stopped]);
        await pause(300);
        await restart(stopped === 0 ? 1 : 0);
        await pause(300);
      }
      await primary.kill();
      await pause(500);
      await standby.promote();
      const promoted = performance.now();
      for (const member of members) await isReady(member);
      const back = performance.now() - promoted;
      await pause(1_000);
      await restart(0);
      run.end();
      await running;

      assert.deepEqual(findContradictions(run), []);
      const done = (log: readonly Attempt[]) => log.filter(({ result }) => result === "done").length;
      // Enough to be contradicted, also on a machine that does ten other things.
      assert.ok(done(run.freezes) >= 10 && done(run.signs) >= 20, `${done(run.freezes)} ${done(run.signs)}`);
      await checkAudit(stage, members, run.serials);
      for (const member of members) {
        const listed = await (await clientOf(stage, member, "operator")).request({
          method: "GET",
          path: "/v1/policy/grants",
        });
        const ids = new Set((listed.body as readonly { readonly id: string }[]).map(({ id }) => id));
        assert.deepEqual([...run.grants].filter((id) => !ids.has(id)), [], "grants that are lost");
        assert.deepEqual([...run.revoked].filter((id) => ids.has(id)), [], "grants that are back");
      }
      const times = run.freezes.filter(({ result }) => result === "done")
        .map(({ asked, ended }) => ended - asked).sort((left, right) => left - right);
      const at = (share: number) => `${times[Math.floor(times.length * share)]?.toFixed(0)} ms`;
      Deno.stderr.writeSync(new TextEncoder().encode(
        `faults: ${done(run.freezes)} freezes (p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}), ${
          done(run.unfreezes)
        } unfreezes, ` +
          `${done(run.signs)} certificates, ${run.grants.size} grants, ${run.revoked.size} taken back; ` +
          `ready ${back.toFixed(0)} ms after the promotion\n`,
      ));
    });
  },
});
