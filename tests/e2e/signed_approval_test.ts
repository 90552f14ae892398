import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { run } from "../stage/run.ts";
import { startAgent } from "../stage/ssh_agent.ts";
import { mustOrMayUseSshKeygen } from "../stage/ssh_keygen.ts";
import { editConfig, runBrokerCtl } from "../stage/stage.ts";
import { type ControlPlaneScene, GATED, withControlPlane } from "./control_plane_scene.ts";
import { signBody } from "../bench/sign_request.ts";
import { createFolder } from "../stage/folder.ts";
import { freePort } from "../stage/free_port.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { signIn, startProvider } from "./sign_in_scene.ts";

/** An installation whose signer requires the signatures of ann, who has a key file, and bob, whose key is in an agent. */
async function withApprovers(test: (people: Approvers) => Promise<void>) {
  await using secrets = await createFolder();
  const origin = `https://localhost:${freePort()}`;
  const { provider: started, config: controlPlaneConfig } = await startProvider(origin, secrets.path);
  await using _provider = started;
  await withControlPlane({ controlPlaneConfig }, async (scene) => {
    const { folder, signer_config: config, client_config } = scene.stage.init;
    const ctl = async (args: readonly string[], env: Readonly<Record<string, string>> = {}) => {
      const { code, stdout, stderr } = await runBrokerCtl(
        [...args, "--config", config, "--client-config", client_config],
        folder,
        env,
      );
      const decoder = new TextDecoder();
      return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
    };
    for (const name of ["ann", "bob"]) {
      await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", `${folder}/${name}`]);
      const added = await ctl(["approver", "add", name, "--ssh-key", `${folder}/${name}.pub`]);
      assert.equal(added.code, 0, added.err);
    }
    const required = await ctl(["approver", "require", "2"]);
    assert.equal(required.code, 0, required.err);
    await editConfig(config, [
      { path: ["approvals", "passkey_rp_id"], value: "localhost" },
      { path: ["approvals", "passkey_origins"], value: [origin] },
    ]);
    await scene.stage.startSigner();
    await scene.stage.startControlPlane();
    await using agent = await startAgent(`${folder}/agent.sock`);
    await agent.add(`${folder}/bob`);
    await Deno.remove(`${folder}/bob`);
    const env = { SSH_AUTH_SOCK: agent.socket };
    const allow = (id: string, name: string) =>
      ctl([
        "approval",
        "allow",
        id,
        "--sign-key",
        name === "bob" ? `${folder}/bob.pub` : `${folder}/${name}`,
        "--as",
        name,
        "--yes",
      ], env);
    await test({ scene, ctl, allow, origin });
  });
}

interface Approvers {
  readonly scene: ControlPlaneScene;
  readonly origin: string;
  readonly ctl: (
    args: readonly string[],
  ) => Promise<{ readonly code: number; readonly out: string; readonly err: string }>;
  readonly allow: (id: string, name: string) => ReturnType<Approvers["ctl"]>;
}

/** A name of the provider. */
const NAME = "carol@example.com";

const ignore = !mustOrMayUseSshKeygen();

Deno.test({
  name: "two people sign with broker-ctl, the broker collects one certificate, and the audit log proves both",
  ignore,
  fn: () =>
    withApprovers(async ({ scene, ctl, allow }) => {
      const id = await scene.park();
      const word = await scene.decide(id, { approve: true });
      assert.equal(word.status, 400, "the word of an approver is not enough");
      const first = await allow(id, "ann");
      assert.match(first.out, /signed; 1 more must sign/, first.err);
      assert.match(
        first.err,
        /As "ann" you sign this request:\n +installation +"gateway-[0-9a-f]+"[^]*command +"hostname"[^]*digest +[0-9a-f]{64}/,
      );
      assert.equal((await allow(id, "ann")).code, 1, "one person counts once");
      const second = await allow(id, "bob");
      assert.match(second.out, /approved/, second.err);
      assert.equal((await scene.poll(id)).status, 200);
      const { signer_audit_log: log, signer_audit_key: key } = scene.stage.init;
      const verified = await ctl(["audit", "verify", "--log", log, "--key", key, "--approvals"]);
      assert.match(verified.out, /OK: 2 signed approvals of 1 records/, verified.err);
      const records = await Deno.readTextFile(log);
      const torn = records.split("\n").find((line) => line.includes('"approvals":[')) ?? "";
      await Deno.writeTextFile(`${log}.torn`, records + torn.slice(0, -9) + "\n");
      const damaged = await ctl(["audit", "verify", "--log", `${log}.torn`, "--key", key, "--approvals"]);
      assert.match(damaged.out, /not JSON[^]*FAIL: 2 signed approvals of 2 records/, damaged.err);
      assert.equal(damaged.code, 1);
      const removed = await ctl(["approver", "remove", "bob", "--dry-run"]);
      assert.match(removed.err, /needs 2 approvers/, "nobody could approve without bob");
    }),
});

Deno.test({
  name: "a control plane that lies gets no certificate",
  ignore,
  fn: () =>
    withApprovers(async ({ scene, allow }) => {
      const id = await scene.park();
      await allow(id, "ann");
      const approvals = parseJson((await scene.get("approver", "/v1/approvals")).text) as readonly {
        readonly signed_approval: { readonly approved_by: readonly string[] };
      }[];
      assert.deepEqual(approvals[0]?.signed_approval.approved_by, ["ann"]);
      const liar = await scene.stage.signerClient("control_plane_client");
      const claim = { command: GATED, on_behalf_of: "broker-local", approved: true };
      const body = { ...JSON.parse(signBody()), ...claim };
      const { status, text } = await liar.request({ method: "POST", path: "/v1/sign", body });
      assert.equal(status, 403, text);
      assert.match(text, /signed approval: 0 of 2 people have signed/);
    }),
});

browserTest(
  "an approver signs in, registers a passkey and signs on the page, another one signs with broker-ctl",
  () =>
    withApprovers(async ({ scene, ctl, allow, origin }) => {
      await using browser = await TestBrowser.start();
      await using session = await browser.plainSession(origin, { ignoreHTTPSErrors: true });
      const page = await session.newPage();
      const devtools = await session.newCDPSession(page);
      await devtools.send("WebAuthn.enable");
      await devtools.send("WebAuthn.addVirtualAuthenticator", {
        options: {
          ...{ protocol: "ctap2", transport: "internal" },
          ...{ hasResidentKey: true, hasUserVerification: true, isUserVerified: true },
        },
      });
      await page.goto("/ui/passkey");
      await signIn(page, NAME);
      await page.getByRole("button", { name: "Create passkey" }).click();
      const text = await page.locator("#passkey-text").filter({ hasText: "public_key" }).innerText();
      const fingerprint = await page.locator("#passkey-fingerprint").innerText();
      const added = await ctl(["approver", "add", NAME, "--passkey", text, "--reload"]);
      assert.ok(added.out.includes(`passkey ${fingerprint}`), added.out + added.err);

      const id = await scene.park();
      await page.goto(`/ui/approvals/${id}`);
      await page.getByRole("button", { name: "Approve once" }).click();
      await page.getByText(`1 of 2: ${NAME}`).waitFor();
      assert.equal((await scene.poll(id)).status, 202, "one signature of two is not enough");
      assert.match((await allow(id, "ann")).out, /approved/);
      assert.equal((await scene.poll(id)).status, 200);
      const { signer_audit_log: log, signer_audit_key } = scene.stage.init;
      const verified = await ctl(["audit", "verify", "--log", log, "--key", signer_audit_key, "--approvals"]);
      assert.match(verified.out, /OK: 2 signed approvals of 1 records/);
    }),
);
