import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { diskTest, fill, makeRoom, TinyDisk } from "../adapters/tiny_disk.ts";
import { metricOf } from "../stage/audit.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { controlPlaneCommand } from "../stage/service_command.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { HOST } from "../stage/stage.ts";
import { type ControlPlaneScene, GATED, withControlPlane } from "./control_plane_scene.ts";

/** The last page of a full disk still accepts records: writes short ones until one is lost and counted. */
async function recordUntilLost(scene: ControlPlaneScene, controlPlane: ServiceProcess): Promise<void> {
  await poll(async () => {
    assert.equal((await scene.get("broker", "/v1/approvals")).status, 403);
    return await metricOf(controlPlane, "audit_append_failures_total") > 0;
  }, { what: "a record to be lost" });
}

const statusOf = (body: unknown) => (body as { readonly status?: string }).status;

const withShared = share<ControlPlaneScene>((use) => {
  const callers = { path: ["approval", "callers"], value: ["approver-local", "operator-local"] };
  return withControlPlane({ controlPlaneConfig: [callers] }, async (scene) => {
    await scene.stage.startSigner();
    await scene.stage.startControlPlane();
    await use(scene);
  });
});

Deno.test("an approval leads from the request to exactly one certificate", () =>
  withShared(async (scene) => {
    const id = await scene.park();
    assert.deepEqual((await scene.poll(id)).body, { status: "pending" });
    const [listed] = (await scene.get("approver", "/v1/approvals")).body as readonly Record<
      string,
      unknown
    >[];
    assert.deepEqual([listed?.["id"], listed?.["command"], listed?.["rule"]], [
      id,
      GATED,
      "require_approval:^hostname$",
    ]);
    assert.equal(
      (await scene.decide(id, { approve: true }, "broker")).status,
      403,
      "the broker may not decide",
    );
    const decided = await scene.decide(id, { approve: true });
    assert.deepEqual([decided.status, statusOf(decided.body)], [200, "approved"]);
    const { status, body } = await scene.poll(id);
    assert.equal(status, 200);
    const { serial } = body as { readonly serial: bigint };
    assert.equal((await scene.poll(id)).status, 410);
    assert.equal((await scene.decide(id, { approve: false })).status, 409);
    const records = await scene.records();
    assert.deepEqual(records.map(({ outcome }) => outcome), [
      "approval-required",
      "denied",
      "approval-decision-allow",
      "approval-granted",
    ]);
    const granted = records.at(-1);
    assert.deepEqual([granted?.approval_id, granted?.approved_by], [id, "approver-local"]);
    assert.equal(BigInt(granted?.serial ?? 0), BigInt(serial));
    await scene.assertLogVerifies();
  }));

Deno.test("an approved and learned file transfer needs no further approval for the same content only", () =>
  withControlPlane({
    signer: [
      {
        path: ["command_policies", "starter"],
        value: { mode: "allowlist", allow: ["^cat "], require_approval: ["^cat "], shell_parse: false },
      },
      { path: ["hosts", HOST, "allow_file_transfer"], value: true },
    ],
  }, async (scene) => {
    await scene.stage.startSigner();
    await scene.stage.startControlPlane();
    const write = { command: "cat > '/etc/app.conf'", file_transfer: true };
    const digest = "aa".repeat(32);
    const park = async (fields: Record<string, unknown>) => {
      const { status, body, text } = await scene.sign({ ...write, ...fields });
      assert.equal(status, 202, text);
      return (body as { readonly approval_id: string }).approval_id;
    };
    const learn = { approve: true, learn: true, ttl_seconds: 60 };
    const unknown = await park({});
    assert.equal((await scene.decide(unknown, learn)).status, 400);
    assert.equal((await scene.decide(unknown, { approve: true })).status, 200);
    const known = await park({ content_sha256: digest });
    assert.equal((await scene.decide(known, learn)).status, 200);
    assert.equal((await scene.poll(known)).status, 200);
    assert.equal((await scene.sign({ ...write, content_sha256: digest })).status, 200);
    await park({ content_sha256: "bb".repeat(32) });
    await park({});
  }));

Deno.test("the webhook receives a signed notification of a pending request, again after kill -9 before the response", async () => {
  const secret = crypto.getRandomValues(new Uint8Array(32));
  const posts: { readonly headers: Headers; readonly body: string }[] = [];
  const killed = Promise.withResolvers<void>();
  const port = freePort();
  await using receiver = Deno.serve({ hostname: "127.0.0.1", port, onListen() {} }, async (request) => {
    posts.push({ headers: request.headers, body: await request.text() });
    if (posts.length === 1) await killed.promise;
    return new Response();
  });
  assert.equal(receiver.addr.port, port);
  // Runs before the receiver is stopped, because the receiver waits for its answers.
  using _answers = { [Symbol.dispose]: () => killed.resolve() };
  const approval = {
    notifier: "webhook",
    webhook_url: `http://127.0.0.1:${port}/hook`,
    webhook_secret_env: "CONTROL_PLANE_TEST_SECRET",
    callers: ["approver-local"],
  };
  await withControlPlane(
    { controlPlaneConfig: [{ path: ["approval"], value: approval }] },
    async (scene) => {
      await scene.stage.startSigner();
      const command = await controlPlaneCommand(scene.stage.init.control_plane_config);
      const env = { CONTROL_PLANE_TEST_SECRET: `whsec_${secret.toBase64()}` };
      const controlPlane = await scene.stage.start({ ...command, env });
      const id = await scene.park();
      await poll(() => posts.length === 1, { what: "a post" });
      await controlPlane.stop("SIGKILL");
      killed.resolve();
      const next = await scene.stage.start({ ...command, env });
      await poll(() => posts.length === 2, { what: "the post of the next process" });
      const [, { headers, body } = assert.fail()] = posts;
      assert.equal((JSON.parse(body) as { id: string }).id, id);
      assert.equal(headers.get("webhook-id"), id);
      const signed = `${id}.${headers.get("webhook-timestamp")}.${body}`;
      const signature = createHmac("sha256", secret).update(signed).digest("base64");
      assert.equal(headers.get("webhook-signature"), `v1,${signature}`);
      assert.doesNotMatch(controlPlane.log + next.log, /whsec_/);
    },
  );
});

diskTest(
  "a full audit disk approves nothing and hands nothing out (closed), and nothing is lost",
  async () => {
    await using disk = await TinyDisk.mount("size=64k");
    const log = `${disk.folder}/audit.log`;
    await withControlPlane({ controlPlaneConfig: [{ path: ["audit_log"], value: log }] }, async (scene) => {
      await scene.stage.startSigner();
      const controlPlane = await scene.stage.startControlPlane();
      const undecided = await scene.park();
      const approved = await scene.park();
      await scene.decide(approved, { approve: true });
      fill(`${disk.folder}/filler`);
      await recordUntilLost(scene, controlPlane);
      for (const answer of [await scene.decide(undecided, { approve: true }), await scene.poll(approved)]) {
        const { detail } = answer.body as { readonly detail?: string };
        assert.deepEqual([answer.status, detail], [500, "audit unavailable"]);
      }
      assert.equal((await scene.sign()).status, 200, "what needs no approval is still forwarded");
      assert.equal(await metricOf(controlPlane, "audit_blocked_total"), 2);
      makeRoom(`${disk.folder}/filler`);
      assert.equal((await scene.poll(undecided)).status, 202, "it was not approved behind the log's back");
      assert.equal((await scene.poll(approved)).status, 200);
      await scene.assertLogVerifies(log);
    });
  },
);

Deno.test("a browser without a client certificate receives 401 with a page of instructions, other programs JSON", () =>
  withShared(async ({ stage }) => {
    const config = await Deno.readTextFile(stage.init.control_plane_config);
    const origin = `https://${/"listen": "([^"]+)"/.exec(config)?.[1]}`;
    using client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(stage.init.mtls_ca)] });
    for (const path of ["/ui/approvals", "/v1/approvals"]) {
      const asked = (accept: string) => fetch(origin + path, { client, headers: { accept } });
      const page = await asked("text/html,application/xhtml+xml,*/*;q=0.8");
      assert.deepEqual([page.status, page.headers.get("content-type")], [401, "text/html; charset=utf-8"]);
      const text = await page.text();
      assert.match(text, /broker-ctl identity add approver NAME --p12/);
      assert.match(text, /A valid client certificate with one common name is required/);
      assert.ok(page.headers.get("content-security-policy")?.includes("default-src 'none'"));
      const json = await asked("*/*");
      assert.deepEqual([json.status, json.headers.get("content-type")], [401, "application/problem+json"]);
      assert.equal((await json.json()).code, "unauthenticated");
    }
  }));
