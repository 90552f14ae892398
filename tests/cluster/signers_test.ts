/** Two signers on one PostgreSQL: a change acknowledged by one is in effect at the other. */
import assert from "node:assert/strict";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import { post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { withStage } from "../stage/with_stage.ts";
import { addMember, clientOf, type Member, readiness, SIGN, startMember } from "./signers.ts";

const CALLER = "broker-local";

async function freeze(client: Awaited<ReturnType<typeof clientOf>>, to: "freeze" | "unfreeze") {
  const body = { kind: "caller", value: CALLER, ...(to === "freeze" && { reason: "" }) };
  return await post(client, `/v1/${to}`, body);
}

async function withTwo(
  test: (stage: Stage, server: PostgresServer, members: readonly [Member, Member]) => Promise<void>,
): Promise<void> {
  await using server = await PostgresServer.start();
  await withStage({}, async (stage) => {
    const members = [
      await addMember(stage, { name: "signer-a", state_db: server.url() }),
      await addMember(stage, { name: "signer-b", state_db: server.socketUrl }),
    ] as const;
    await test(stage, server, members);
  });
}

Deno.test(
  "signers on one database: freezes, grants and failures",
  { ignore: isPostgresMissing },
  (test) =>
    withTwo(async (stage, server, [a, b]) => {
      const first = await startMember(stage, a);
      let second = await startMember(stage, b);
      const [operator, broker] = [await clientOf(stage, a, "operator"), await clientOf(stage, b, "broker")];
      const sign = async () => (await broker.request(SIGN)).status;
      /**
       * If the machine pauses for seconds, a signer correctly refuses to decide. Here such a refusal proves
       * nothing.
       */
      const decided = async (request: Parameters<typeof broker.request>[0] = SIGN) => {
        let status = 503;
        const isDecided = async () => (status = (await broker.request(request)).status) !== 503;
        await poll(isDecided, { what: "a decision", intervalMs: 5 });
        return status;
      };
      const passes = () => poll(async () => await sign() === 200, { what: "a certificate", intervalMs: 5 });

      await test.step("a freeze acknowledged by one signer is in force at the other", async () => {
        await passes();
        for (let round = 0; round < 10; round++) {
          assert.equal((await freeze(operator, "freeze")).status, 200);
          assert.equal(await decided(), 403, `round ${round}`);
          assert.equal((await freeze(operator, "unfreeze")).status, 200);
          await passes();
        }
      });

      await test.step("a freeze at one signer revokes a certificate of the other", async () => {
        // Revocations have a resolution of one second: they cover certificates issued in the same second.
        const second = Math.floor(Date.now() / 1000);
        await poll(() => Math.floor(Date.now() / 1000) > second, { what: "the next second" });
        const { serial } = (await broker.request(SIGN)).body as { readonly serial: bigint };
        const { body } = await freeze(operator, "freeze");
        await freeze(operator, "unfreeze");
        const { certificates_revoked } = body as { readonly certificates_revoked: number };
        assert.ok(certificates_revoked > 0, JSON.stringify(body));
        assert.match(
          await server.sql("SELECT serials FROM signer.certificates"),
          new RegExp(`\\b${serial}\\b`),
        );
        await freeze(operator, "unfreeze");
        await passes();
      });

      await test.step("a grant of one signer is in force at the other until its removal is acknowledged", async () => {
        const status = { ...SIGN, body: { ...SIGN.body, command: "systemctl status nginx" } };
        assert.equal(await decided(status), 403);
        const made = await post(operator, "/v1/policy/hosts/web01/grants", {
          allow: ["^systemctl status nginx$"],
          ttl_seconds: 60,
        });
        assert.equal(made.status, 201, JSON.stringify(made.body));
        await poll(async () => (await broker.request(status)).status === 200, {
          what: "the grant",
          timeoutMs: 10_000,
          intervalMs: 5,
        });
        const { id } = made.body as { readonly id: string };
        assert.equal(
          (await operator.request({ method: "DELETE", path: `/v1/policy/grants/${id}` })).status,
          200,
        );
        assert.equal(await decided(status), 403);
      });

      await test.step("policy edits are rejected with a reason", async () => {
        const edit = {
          method: "POST",
          path: "/v1/policy/hosts/web01/allow",
          body: { pattern: "^x$" },
        } as const;
        const { status, body } = await operator.request(edit);
        assert.equal(status, 409);
        assert.match((body as { readonly detail: string }).detail, /several signers share the state/);
      });

      await test.step("a second signer with the same instance name does not start", async () => {
        const twin = await addMember(stage, {
          name: "twin",
          state_db: server.url(),
          edits: [
            { path: ["instance"], value: "signer-a" },
          ],
        });
        await using process = ServiceProcess.spawn(await signerCommand(twin.configPath));
        assert.equal((await process.status).code, 1);
        assert.match(process.log, /a signer with the instance name "signer-a" is running/);
        assert.equal(await readiness(a), "200 ready");
      });

      await test.step("broker-ctl status shows both signers and their problems", async () => {
        const status = async (...monitors: readonly string[]) => {
          const { code, stdout } = await runBrokerCtl(["status", "--json", ...monitors], stage.init.folder);
          return { code, shown: JSON.parse(new TextDecoder().decode(stdout)) };
        };
        const both = await status(a.monitor, b.monitor);
        assert.deepEqual([both.code, both.shown.problems, both.shown.notes], [0, [], []]);
        for (const [index, name] of ["signer-a", "signer-b"].entries()) {
          const { instance, members, stateAgeSeconds, database, krlVersion } = both.shown.services[index];
          assert.deepEqual({ instance, members }, { instance: name, members: ["signer-a", "signer-b"] });
          assert.ok(stateAgeSeconds < 2 && krlVersion > 0, JSON.stringify(both));
          assert.match(database, / primary$/);
        }
        const alone = await status(a.monitor, "127.0.0.1:1");
        assert.equal(alone.code, 1);
        assert.match(alone.shown.problems.join(), /^127\.0\.0\.1:1: no response/);
        assert.deepEqual(alone.shown.notes, ['signer: also running, but not checked: "signer-b"']);
      });

      await test.step("a freeze does not wait for a stopped signer, which denies requests when it continues", async () => {
        second.kill("SIGSTOP");
        assert.equal((await freeze(operator, "freeze")).status, 200);
        second.kill("SIGCONT");
        assert.ok([403, 503].includes(await sign()));
        await poll(async () => await readiness(b) === "200 ready", { what: "its return", intervalMs: 20 });
        assert.equal(await decided(), 403);
        await freeze(operator, "unfreeze");
        await passes();
      });

      await test.step("a signer that was killed rejoins under its name", async () => {
        second.kill("SIGKILL");
        await second.status;
        second = await startMember(stage, b);
        await passes();
        assert.equal(await server.sql("SELECT count(*) FROM signer.instances"), "2");
      });

      await test.step("without the database all signers deny requests and report it, and with it they decide again", async () => {
        await server.kill();
        await poll(
          async () => (await readiness(b)).startsWith("503 not ready: its state is too old"),
          {
            what: "the end of its view",
            intervalMs: 20,
          },
        );
        const refused = await broker.request(SIGN);
        assert.equal(refused.status, 503);
        assert.equal((refused.body as { readonly code: string }).code, "state_stale");
        const unmade = await freeze(operator, "freeze");
        assert.equal(unmade.status, 503);
        assert.match(
          (unmade.body as { readonly detail: string }).detail,
          /frozen at this signer only/,
        );
        await server.run();
        // The signer stores its missing change without a request.
        await poll(async () => await sign() === 403, {
          what: "the freeze",
          timeoutMs: 20_000,
          intervalMs: 50,
        });
        await freeze(operator, "unfreeze");
        await passes();
      });

      await test.step("a signer stops deciding if a newer version upgraded the tables", async () => {
        await server.sql("UPDATE signer.schema_version SET version = 99, oldest = 99");
        await poll(async () => /newer version .* upgrade this instance/.test(await readiness(b)), {
          what: "the refusal",
          intervalMs: 20,
        });
        assert.equal(await sign(), 503);
      });

      await test.step("a signer that stops leaves the group and has logged its denials", async () => {
        await second.stop();
        assert.equal(await server.sql("SELECT name FROM signer.instances"), "signer-a");
        assert.match(await Deno.readTextFile(b.auditLog), /"outcome":"stale_denied"/);
        assert.doesNotMatch(first.log + second.log, /Unexpected|Uncaught/);
      });
    }),
);
