/** Hosts in the database of several signers: an acknowledged change is in effect at every signer. */
import assert from "node:assert/strict";
import { run } from "../adapters/ctl_fixture.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { type ConfigEdit, editConfig, HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addMember, clientOf, type Member, readiness, SIGN, startMember } from "./signers.ts";

const ALLOW = { path: `/v1/policy/hosts/${HOST}/allow`, body: { pattern: "^systemctl status nginx$" } };
const STATUS = { ...SIGN, body: { ...SIGN.body, command: "systemctl status nginx" } } as const;
const FROM_DATABASE: readonly ConfigEdit[] = [
  { path: ["policy_source"], value: "database" },
  { path: ["hosts"] },
];

function ctl(stage: Stage, { listen }: Member, ...args: readonly string[]) {
  const { cert, key } = stage.init.operator;
  const reach = ["--url", `https://${listen}`, "--cert", cert, "--key", key, "--ca", stage.init.mtls_ca];
  return run(stage.init.folder, ...args, ...reach);
}

async function refusesToStart({ configPath }: Member, says: RegExp): Promise<void> {
  await using process = ServiceProcess.spawn(await signerCommand(configPath));
  assert.equal((await process.status).code, 1);
  // The last output can be read after the end of the process.
  await poll(() => says.test(process.log), { what: `${says}`, intervalMs: 10 });
}

Deno.test({
  name: "signers whose hosts are in their database",
  ignore: isPostgresMissing,
  async fn(test) {
    await using server = await PostgresServer.start();
    await withStage({}, async (stage) => {
      const [a, b] = [
        await addMember(stage, { name: "signer-a", state_db: server.url() }),
        await addMember(stage, { name: "signer-b", state_db: server.socketUrl }),
      ];
      const first = await startMember(stage, a);
      let second = await startMember(stage, b);
      const [atA, atB] = [await clientOf(stage, a, "operator"), await clientOf(stage, b, "operator")];
      const [brokerAtA, brokerAtB] = [await clientOf(stage, a, "broker"), await clientOf(stage, b, "broker")];
      /** A signer on a machine that pauses for seconds correctly denies decisions. */
      const decided = async (client: typeof brokerAtA, request: Parameters<typeof atA.request>[0] = SIGN) => {
        let status = 503;
        const isDecided = async () => (status = (await client.request(request)).status) !== 503;
        await poll(isDecided, { what: "a decision", intervalMs: 5 });
        return status;
      };
      /**
       * Checks that a change acknowledged at one signer is in force at the other. A slow machine can delay
       * the acknowledgment.
       */
      const edit = async (
        here: typeof atA,
        method: "POST" | "DELETE",
        there: typeof brokerAtA,
        then: 200 | 403,
      ) => {
        const { status } = await here.request({ method, ...ALLOW });
        if (status === 200) return assert.equal(await decided(there, STATUS), then);
        assert.equal(status, 503);
        await poll(async () => (await there.request(STATUS)).status === then, { what: "it", intervalMs: 5 });
      };
      const detailOf = ({ body }: { readonly body: unknown }) => (body as { readonly detail: string }).detail;
      const isReady = (member: Member) =>
        poll(async () => await readiness(member) === "200 ready", { what: "readiness", intervalMs: 20 });

      await test.step("policy import stores the hosts while signers still use their files", async () => {
        const preview = await ctl(stage, a, "policy", "import", a.configPath, "--dry-run");
        assert.equal(preview.exit, 0, preview.err);
        assert.match(preview.out, /^\+ {2}"addr": /m);
        assert.match(preview.out, /the new version would be 1 with 1 hosts$/m);
        assert.equal(await server.sql("SELECT count(*) FROM signer.policy_versions"), "0");
        const { out, err, exit } = await ctl(stage, a, "policy", "import", a.configPath);
        assert.equal(exit, 0, err);
        assert.match(out, /imported the hosts of .*: version 1, 1 hosts, in force at all signers/);
        assert.equal(await decided(brokerAtB), 200);
      });

      await test.step("a signer with hosts in the file and in the database does not start", async () => {
        await first.stop();
        await refusesToStart(a, /both the database \(version 1\) and the file have hosts/);
        await editConfig(a.configPath, FROM_DATABASE.slice(0, 1));
        await refusesToStart(a, /hosts: must be empty if policy_source is "database"/);
        await editConfig(a.configPath, FROM_DATABASE);
      });

      let process = await startMember(stage, a);
      await test.step("a signer that reads hosts from its file denies requests once the hosts in the database change", async () => {
        assert.equal(await decided(brokerAtA), 200);
        await edit(atA, "POST", brokerAtA, 200);
        assert.match(
          await readiness(b),
          /the hosts are in the database \(version 2\), but policy_source is "file"/,
        );
        assert.equal((await brokerAtB.request(SIGN)).status, 503);
        await editConfig(b.configPath, FROM_DATABASE);
        await second.stop();
        second = await startMember(stage, b);
        assert.equal(await decided(brokerAtB, STATUS), 200);
      });

      await test.step("a change that one signer acknowledges is in force at the other, and records contain the version", async () => {
        // No signer decides by a proposal of a killed signer, and the proposal blocks no other change.
        await server.sql(
          `BEGIN; INSERT INTO signer.policy_proposals VALUES ('{"hosts":{}}', '00');
           UPDATE signer.epochs SET value = value + 1 WHERE topic = 'state'; NOTIFY signer; COMMIT`,
        );
        const prepared = "SELECT count(*) FROM signer.instances WHERE prepared =";
        await poll(async () => await server.sql(`${prepared} '00'`) === "2", { what: "it", intervalMs: 10 });
        assert.deepEqual([await decided(brokerAtA), await decided(brokerAtB)], [200, 200]);
        for (let round = 0; round < 5; round++) {
          const [here, there] = round % 2 === 0 ? [atA, brokerAtB] : [atB, brokerAtA];
          await edit(here, "DELETE", there, 403);
          await edit(here, "POST", there, 200);
        }
        const newest = "SELECT sha256 FROM signer.policy_versions ORDER BY version DESC LIMIT 1";
        assert.notEqual(await server.sql(`${prepared} (${newest})`), "0", "the other one was ready for it");
        assert.equal(await server.sql("SELECT count(*) FROM signer.policy_proposals"), "0");
        const log = await Deno.readTextFile(b.auditLog);
        assert.match(
          log,
          /"command":"role=target purpose=oneshot",.*"outcome":"issued".*"policy_version":12/,
        );
        assert.match(log, /"command":"reload hosts=1".*"outcome":"reloaded".*"policy_version":12/);
        assert.match(
          await Deno.readTextFile(a.auditLog),
          /"caller":"operator-local".*"command":"policy-allow-remove".*"outcome":"policy-changed".*"policy_version":3/,
        );
      });

      await test.step("of two concurrent changes one is rejected with a reason and leaves nothing behind", async () => {
        const patterns = Array.from({ length: 8 }, (_, index) => `^race ${index}$`);
        const answers = await Promise.all(
          patterns.map((pattern, index) =>
            (index % 2 === 0 ? atA : atB).request({ method: "POST", path: ALLOW.path, body: { pattern } })
          ),
        );
        const withStatus = (status: number) =>
          patterns.filter((_, index) => answers[index]?.status === status);
        const [won, lost, late] = [withStatus(200), withStatus(409), withStatus(503)];
        assert.equal(won.length + lost.length + late.length, patterns.length);
        for (const answer of answers) {
          if (answer.status !== 409) continue;
          assert.match(
            detailOf(answer),
            /the policy was changed by another request: nothing was changed/,
          );
        }
        const { out } = await ctl(stage, b, "policy", "export");
        const { allow } = JSON.parse(out).hosts[HOST].command_policy as { readonly allow: readonly string[] };
        const kept = allow.filter((pattern) => pattern.startsWith("^race"));
        assert.ok(kept.length >= 1);
        assert.deepEqual(
          won.filter((pattern) => !kept.includes(pattern)),
          [],
          "what is acknowledged is there",
        );
        assert.deepEqual(lost.filter((pattern) => kept.includes(pattern)), [], "what is refused is not");
        const versions = await server.sql("SELECT count(*), max(version) FROM signer.policy_versions");
        assert.equal(versions, `${12 + kept.length}|${12 + kept.length}`);
      });

      await test.step("history, diff and rollback, which creates a new version", async () => {
        const history = await ctl(stage, b, "policy", "history", "-o", "wide");
        assert.match(history.out, /^2 +2\S+Z +operator-local +add web01 \^systemctl status nginx\$$/m);
        assert.match(history.out, /^1 +2\S+Z +operator-local +import$/m);
        const diff = await ctl(stage, b, "policy", "diff", "1", "2");
        assert.match(diff.out, /^--- hosts\.web01$/m);
        assert.match(diff.out, /^\+ +"\^systemctl status nginx\$"/m);
        const preview = await ctl(stage, b, "policy", "rollback", "1", "--dry-run");
        assert.match(preview.out, /^- +"\^systemctl status nginx\$"/m);
        assert.equal(await decided(brokerAtA, STATUS), 200, "nothing was changed");
        const back = await ctl(stage, b, "policy", "rollback", "1");
        assert.match(back.out, /restored version 1: version \d+, 1 hosts/, back.err);
        assert.equal(await decided(brokerAtA, STATUS), 403);
        assert.match(
          await Deno.readTextFile(b.auditLog),
          /"command":"policy-rollback-to-1",.*"policy-changed".*"policy_version":\d+/,
        );
        assert.match(
          (await ctl(stage, b, "policy", "rollback", "999")).err,
          /unknown version of the policy: 999/,
        );
      });

      await test.step("policy import replaces existing hosts only with an explicit option, and only for admins", async () => {
        const { out } = await ctl(stage, a, "policy", "export");
        const path = `${stage.init.folder}/hosts.json`;
        await Deno.writeTextFile(path, out);
        assert.match(
          (await ctl(stage, a, "policy", "import", path)).out,
          /already contains these hosts, nothing was changed/,
        );
        await Deno.writeTextFile(path, out.replace('"groups"', '"allow_pty": true, "groups"'));
        const refused = await ctl(stage, a, "policy", "import", path);
        assert.match(
          refused.err,
          /the database has other hosts \(version \d+\); nothing was changed/,
        );
        assert.equal(refused.exit, 1);
        assert.equal((await ctl(stage, a, "policy", "import", path, "--replace")).exit, 0);
        await Deno.writeTextFile(path, out.replace('"groups"', '"grops"'));
        const broken = await ctl(stage, a, "policy", "import", path, "--replace");
        assert.match(broken.err, /HTTP 400.*grops/);
        const outside = {
          method: "POST",
          path: "/v1/policy/versions",
          body: { base_version: 1, hosts: {} },
        } as const;
        assert.equal((await brokerAtA.request(outside)).status, 403);
        assert.equal((await brokerAtA.request({ method: "GET", path: "/v1/policy/versions" })).status, 403);
        assert.equal((await atA.request(outside)).status, 409);
        const edited = await run(stage.init.folder, "host", "list", "--config", a.configPath);
        assert.match(
          edited.err,
          /Cannot use the hosts of this file: they are in the database[^]*policy export/,
        );
      });

      const byHand = async (
        document: string,
        digest = "encode(sha256(convert_to(document, 'UTF8')), 'hex')",
      ) => {
        const newest = Number(await server.sql("SELECT max(version) FROM signer.policy_versions"));
        await server.sql(
          `BEGIN; UPDATE signer.epochs SET value = value + 1 WHERE topic = 'state';
           INSERT INTO signer.policy_versions SELECT ${
            newest + 1
          }, document, ${digest}, 'somebody', 'by hand', 0
             FROM (VALUES ('${document}')) AS made (document); NOTIFY signer; COMMIT`,
        );
        return newest + 1;
      };
      for (
        const [name, document, says] of [
          ["is no JSON", "{", /not a JSON object with "hosts" alone/],
          ["has an unknown key", '{"hosts": {"web01": {"adr": "x"}}}', /unknown key "hosts\.web01\.adr"/],
          [
            "is more than hosts",
            '{"hosts": {}, "reload_callers": ["broker-local"]}',
            /not a JSON object with "hosts" alone/,
          ],
        ] as const
      ) {
        await test.step(`a version that ${name} ends all decisions until the next version, and readiness names it`, async () => {
          const bad = await byHand(document);
          await poll(
            async () => (await readiness(a)).includes(`version ${bad} of the policy can't be used`),
            {
              what: "the refusal",
              intervalMs: 20,
            },
          );
          assert.match(await readiness(a), says);
          assert.equal((await brokerAtA.request(SIGN)).status, 503);
          assert.equal((await brokerAtA.request({ method: "GET", path: "/v1/hosts" })).status, 503);
          assert.equal((await ctl(stage, a, "policy", "rollback", "1")).exit, 0);
          await Promise.all([isReady(a), isReady(b)]);
          assert.equal(await decided(brokerAtB), 200);
        });
      }

      await test.step("signers reject a version whose hosts were changed manually", async () => {
        const bad = await byHand('{"hosts": {}}', "'00'");
        await poll(async () => (await readiness(b)).includes("it was changed manually"), {
          what: "it",
          intervalMs: 20,
        });
        // A rejected version can also occur at a start, where it can be rolled back too.
        await process.stop();
        process = ServiceProcess.spawn(await signerCommand(a.configPath));
        const starting = process;
        stage.defer(() => starting[Symbol.asyncDispose]());
        await poll(() => starting.log.includes("signer ready"), { what: "the start" });
        assert.match(await readiness(a), new RegExp(`version ${bad} of the policy can't be used`));
        assert.equal((await ctl(stage, a, "policy", "rollback", "1")).exit, 0);
        await Promise.all([isReady(a), isReady(b)]);
      });

      await test.step("a signer that was killed during a policy change starts with the change", async () => {
        second.kill("SIGSTOP");
        const adding = atA.request({ method: "POST", ...ALLOW }).catch(() => {});
        await poll(
          async () =>
            /add web01/.test(
              await server.sql("SELECT change FROM signer.policy_versions ORDER BY version DESC LIMIT 1"),
            ),
          {
            what: "the version",
            intervalMs: 10,
          },
        );
        process.kill("SIGKILL");
        await Promise.all([adding, process.status]);
        second.kill("SIGCONT");
        // The change is not acknowledged, so this signer may decide by its previous state while that is
        // fresh.
        await poll(async () => (await brokerAtB.request(STATUS)).status === 200, {
          what: "it",
          intervalMs: 20,
        });
        process = await startMember(stage, a);
        await isReady(a);
        assert.equal(await decided(brokerAtA, STATUS), 200);
        assert.doesNotMatch(process.log + second.log, /Unexpected|Uncaught/);
      });

      await test.step("a signer without a connection to the database denies requests and rejects changes", async () => {
        await server.kill();
        await poll(async () => (await brokerAtA.request(SIGN)).status === 503, {
          what: "the refusal",
          intervalMs: 20,
        });
        const unmade = await atA.request({ method: "DELETE", ...ALLOW });
        assert.equal(unmade.status, 503, JSON.stringify(unmade.body));
        await server.run();
        await isReady(b);
        assert.equal(await decided(brokerAtB, STATUS), 200, "nothing was removed");
      });
    });
  },
});
