/** Three control planes on one PostgreSQL: park at one, decide at another, collect at a third, once. */
import assert from "node:assert/strict";
import { type JsonClient, openUpstreams } from "@gateway/shared/http";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { parseJson } from "@gateway/shared/json";
import { signBody } from "../bench/sign_request.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { withStage } from "../stage/with_stage.ts";
import { POSTGRES_SCHEMA } from "../../control_plane/state/postgres.ts";
import { upgradeTables } from "./upgrade_tables.ts";
import { Wire } from "./wire.ts";
import { AnswerKeeper } from "./answer_keeper.ts";
import { addMember, clientOf, type Member, readiness, startMember, tlsOf } from "./signers.ts";

const GATED = "hostname";
const NAMES = ["a", "b", "c"] as const;
/** The config of another control plane with a shorter timeout for pending requests. */
const SHORT_SECONDS = 1;

/** One of the three control planes, or another URL. */
type Place = number | Readonly<Record<"broker" | "approver", JsonClient>>;

Deno.test({
  name: "control planes on one database: an approval is decided once and collected once, at any of them",
  ignore: isPostgresMissing,
  async fn(test) {
    await using server = await PostgresServer.start();
    const gate = { path: ["command_policies", "starter", "require_approval"], value: [`^${GATED}$`] };
    await withStage({ controlPlane: true, signer: [gate] }, async (stage) => {
      await stage.startSigner();
      const members: Member[] = [];
      const processes: ServiceProcess[] = [];
      for (const name of NAMES) {
        const member = await addMember(stage, { name, state_db: server.url(), service: "control-plane" });
        members.push(member);
        processes.push(await startMember(stage, member));
      }
      const clients = (who: "broker" | "approver") =>
        Promise.all(members.map((member) => clientOf(stage, member, who)));
      const [brokers, approvers] = [await clients("broker"), await clients("approver")];
      const at = (place: Place) =>
        typeof place === "number" ? { broker: brokers[place % 3], approver: approvers[place % 3] } : place;
      const park = async (place: Place, reason: string = crypto.randomUUID()) => {
        const body = { ...JSON.parse(signBody()), command: GATED, reason };
        const parked = await at(place).broker?.request({ method: "POST", path: "/v1/sign", body });
        assert.equal(parked?.status, 202, `${parked?.text}`);
        return (parked?.body as { readonly approval_id: string }).approval_id;
      };
      const decide = (place: Place, id: string, approve = true) =>
        at(place).approver?.request({ method: "POST", path: `/v1/approvals/${id}`, body: { approve } });
      const collect = (place: Place, id: string, query = "") =>
        at(place).broker?.request({ method: "GET", path: `/v1/sign/result/${id}${query}` });

      const wire = await Wire.open(server.port);
      stage.defer(() => wire[Symbol.asyncDispose]());
      const short = await addMember(stage, {
        ...{
          name: "short",
          state_db: server.url().replace(`:${server.port}/`, `:${wire.port}/`),
          service: "control-plane",
        },
        edits: [{ path: ["approval", "timeout_seconds"], value: SHORT_SECONDS }],
      });
      await startMember(stage, short);
      const ofShort = {
        broker: await clientOf(stage, short, "broker"),
        approver: await clientOf(stage, short, "approver"),
      };
      const lasting = await park(0);
      const passing = await park(ofShort);

      await test.step("a decision is visible everywhere immediately and wakes waiting polls", async () => {
        for (let round = 0; round < 6; round++) {
          const id = await park(round);
          assert.equal((await collect(round + 1, id))?.status, 202);
          const waiting = collect(round + 2, id, "?wait=25");
          const decided = await decide(round + 1, id);
          assert.equal(decided?.status, 200, `${decided?.text}`);
          const started = performance.now();
          assert.equal((await waiting)?.status, 200);
          // Without a notification the answer would come after 25 s. Even a busy machine is faster.
          assert.ok(performance.now() - started < 15_000);
          for (let index = 0; index < 3; index++) assert.equal((await collect(index, id))?.status, 410);
          assert.equal((await decide(round + 2, id, false))?.status, 409);
        }
      });

      await test.step("of concurrent decisions and collections one each succeeds, and one certificate is issued", async () => {
        const issued = async () =>
          (await Deno.readTextFile(stage.init.signer_audit_log)).split('"outcome":"issued"').length;
        for (let round = 0; round < 12; round++) {
          const before = await issued();
          const id = await park(round);
          const decided = await Promise.all([0, 1, 2, 0, 1, 2].map((index) => decide(index, id)));
          assert.deepEqual(decided.map((each) => each?.status).sort(), [200, 409, 409, 409, 409, 409]);
          const collected = await Promise.all([0, 1, 2, 0, 1, 2].map((index) => collect(index, id)));
          const statuses = collected.map((each) => each?.status);
          assert.equal(statuses.filter((status) => status === 200).length, 1, `${statuses}`);
          assert.ok(statuses.every((status) => [200, 202, 410].includes(status ?? 0)), `${statuses}`);
          assert.equal(await issued() - before, 1);
        }
      });

      await test.step("a denial holds at every control plane, and identical requests can each be decided", async () => {
        const denied = await park(0);
        assert.equal((await decide(1, denied, false))?.status, 200);
        for (let index = 0; index < 3; index++) assert.equal((await collect(index, denied))?.status, 403);
        const reason = crypto.randomUUID();
        const twins = await Promise.all([park(0, reason), park(1, reason), park(2, reason)]);
        // Every request can be decided, whichever request each instance considered the first.
        for (const id of twins) {
          const { status, text = "" } = await decide(2, id) ?? {};
          assert.ok(status === 200 || /it is approved/.test(text), text);
        }
        for (const [index, id] of twins.entries()) assert.equal((await collect(index + 1, id))?.status, 200);
      });

      await test.step("a request of a killed control plane is decided and collected elsewhere", async () => {
        const id = await park(0);
        processes[0]?.kill("SIGKILL");
        await processes[0]?.status;
        assert.equal((await decide(1, id))?.status, 200);
        assert.equal((await collect(2, id))?.status, 200);
        processes[0] = await startMember(stage, members[0] as Member);
        assert.equal((await collect(0, id))?.status, 410);
      });

      await test.step("control planes keep running and restart after a newer version extends the tables", async () => {
        const [before, waiting] = [await park(0), await park(1)];
        await upgradeTables(server.url(), POSTGRES_SCHEMA, ["approvals", "baselines"]);
        assert.equal((await decide(1, before))?.status, 200);
        await processes[2]?.stop("SIGTERM");
        processes[2] = await startMember(stage, members[2] as Member);
        assert.equal((await collect(2, before))?.status, 200);
        assert.equal((await decide(2, waiting))?.status, 200);
        assert.equal((await collect(0, waiting))?.status, 200);
      });

      await test.step("a request expires at every control plane after the timeout of the one that created it", async () => {
        for (let index = 0; index < 3; index++) {
          // The request expires, and is forgotten after the same time again.
          const hasEnded = async () => [408, 404].includes((await collect(index, passing))?.status ?? 0);
          await poll(hasEnded, { what: "its end" });
          assert.ok([409, 404].includes((await decide(index, passing))?.status ?? 0));
        }
        // The request has waited longer than the other control plane would have allowed.
        assert.equal((await collect(ofShort, lasting))?.status, 202);
        assert.equal((await decide(ofShort, lasting))?.status, 200);
        assert.equal((await collect(ofShort, lasting))?.status, 200);
        assert.equal((await collect(1, lasting))?.status, 410);
      });

      await test.step("a certificate whose collection response was lost is revoked", async () => {
        const keepers = [];
        for (const index of [0, 1]) {
          const keeper = await AnswerKeeper.open(stage, brokers[index]!);
          stage.defer(() => keeper[Symbol.asyncDispose]());
          keepers.push(keeper);
        }
        const upstreams = openUpstreams({
          ...{ what: "the control plane", urls: keepers.map(({ port }) => `https://127.0.0.1:${port}`) },
          ...{ ...await tlsOf(stage, "broker"), clock: systemClock, random: systemRandom },
        });
        stage.defer(() => upstreams.close());
        const request = upstreams.client({});
        const id = await park(0);
        assert.equal((await decide(1, id))?.status, 200);
        const signed = Promise.withResolvers<string>();
        for (const keeper of keepers) {
          keeper.onCertificate = async (_, serial) => {
            await keeper.end();
            signed.resolve(serial);
          };
        }
        const collecting = request.request({ method: "GET", path: `/v1/sign/result/${id}` });
        await assert.rejects(collecting, { code: "answer_lost" });
        const serial = await signed.promise;
        const log = () => Deno.readTextFile(stage.init.signer_audit_log);
        await poll(async () => (await log()).includes(`revoked serial=${serial} reason=answer-lost`), {
          what: "the signer to revoke it",
        });
        for (let index = 0; index < 3; index++) assert.equal((await collect(index, id))?.status, 410);
      });

      await test.step("a control plane with an unresponsive database returns 503", async () => {
        const id = await park(0);
        assert.equal((await collect(ofShort, id))?.status, 202);
        wire.break("holds both");
        const body = { ...JSON.parse(signBody()), command: GATED };
        const parking = () => ofShort.broker.request({ method: "POST", path: "/v1/sign", body });
        const answers = await Promise.all([
          ...[parking(), parking(), parking(), parking()],
          ...[collect(ofShort, id, "?wait=25"), decide(ofShort, id)],
        ]);
        assert.deepEqual(answers.map((each) => each?.status), Array(6).fill(503));
        assert.match(await readiness(short), /^503 not ready: its state is too old/);
        await park(1);
        wire.mend();
        await poll(async () => (await readiness(short)) === "200 ready", { what: "its return" });
        assert.equal((await decide(ofShort, id))?.status, 200);
        assert.equal((await collect(0, id))?.status, 200);
      });

      await test.step("without the database new requests, polls and decisions get 503", async () => {
        const id = await park(0);
        await server.kill();
        const started = performance.now();
        const body = { ...JSON.parse(signBody()), command: GATED };
        const answers = await Promise.all([
          brokers[0]?.request({ method: "POST", path: "/v1/sign", body }),
          collect(1, id),
          decide(2, id),
        ]);
        assert.deepEqual(answers.map((each) => each?.status), [503, 503, 503]);
        // On a quiet machine 2.5 s. A request that waits for a missing database never ends.
        assert.ok(performance.now() - started < 20_000);
        await poll(async () => (await readiness(members[0] as Member)).startsWith("503"), {
          what: "its word",
        });
        await server.run();
        await poll(async () => (await readiness(members[1] as Member)) === "200 ready", {
          what: "its return",
        });
        assert.equal((await decide(1, id))?.status, 200);
        assert.equal((await collect(1, id))?.status, 200);
      });

      await test.step("each result was released once, and no log contains a password or a URL", async () => {
        const released: string[] = [];
        for (const { auditLog } of [...members, short]) {
          for (const line of (await Deno.readTextFile(auditLog)).trimEnd().split("\n")) {
            const { outcome, approval_id, err = "" } = parseJson(line) as Readonly<Record<string, string>>;
            if (outcome === "approval-granted") released.push(`${approval_id}`);
            if (outcome === "error" && err.startsWith("withheld")) {
              released.splice(released.indexOf(`${approval_id}`), 1);
            }
          }
        }
        assert.equal(new Set(released).size, released.length);
      });
    });
  },
});
