import assert from "node:assert/strict";
import type { BrowserContext } from "playwright-core";
import { HOST, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { PUBLIC_KEY } from "../../control_plane/testing/sample_approval.ts";
import { browserTest, TestBrowser } from "./chromium.ts";
import { OPEN_POLICY } from "./session_scene.ts";

const POLICY = {
  path: ["command_policies", "starter"],
  value: { mode: "allowlist", allow: ["^printf .*$"], require_approval: ["^printf .*$"] },
};

async function onStage(
  options: { readonly scripts: boolean },
  test: (scene: {
    readonly ask: (fields?: Record<string, unknown>) => Promise<string>;
    readonly collect: (id: string) => Promise<{ status: number; body: Record<string, unknown> }>;
    readonly session: BrowserContext;
  }) => Promise<void>,
): Promise<void> {
  await withStage({ controlPlane: true, signer: [POLICY] }, async (stage) => {
    await stage.startSigner();
    await stage.startControlPlane();
    const broker = await stage.controlPlaneClient("broker");
    await using browser = await TestBrowser.start();
    await using session = await approverSession(stage, browser, options);
    await test({
      session,
      async ask(fields = {}) {
        const body = { host: HOST, role: "target", purpose: "oneshot", public_key: PUBLIC_KEY, ...fields };
        const answer = await post(broker, "/v1/sign", body);
        assert.equal(answer.status, 202, answer.text);
        return String((answer.body as Record<string, unknown>)["approval_id"]);
      },
      async collect(id) {
        const { status, body } = await broker.request({ method: "GET", path: `/v1/sign/result/${id}` });
        return { status, body: body as Record<string, unknown> };
      },
    });
  });
}

async function approverSession(
  stage: Stage,
  browser: TestBrowser,
  { scripts }: { readonly scripts: boolean },
) {
  const { approver, approvals_url } = stage.init;
  const identity = {
    cert: await Deno.readTextFile(approver.cert),
    key: await Deno.readTextFile(approver.key),
  };
  return await browser.session(new URL(approvals_url).origin, identity, { javaScriptEnabled: scripts });
}

browserTest(
  "an approver finds a request, approves it, and the broker collects a certificate",
  () =>
    onStage({ scripts: true }, async ({ ask, collect, session }) => {
      const id = await ask({
        command: "printf 'é <b>\u202e'",
        end_user: "alice@example.com",
        end_user_groups: null,
      });
      const page = await session.newPage();
      const complaints: string[] = [];
      page.on("console", (message) => complaints.push(message.text()));
      page.on("pageerror", (error) => complaints.push(error.message));
      await page.goto("/ui/approvals");
      assert.equal(await page.title(), "(1) Approvals");
      await page.getByRole("link", { name: /^Review/ }).click();
      await page.waitForURL(`**/ui/approvals/${id}`);
      assert.equal(await page.locator(".command").textContent(), "printf 'é <b>\\u{202e}'");
      const sent = page.waitForRequest((request) => request.method() === "POST");
      await page.getByRole("button", { name: "Approve once" }).click();
      assert.equal(new URL((await sent).url()).pathname, `/ui/approvals/${id}`);
      assert.deepEqual((await sent).postDataJSON(), { approve: true, shown_ids: [id] });
      await page.getByText(/^Approved by approver-local .* ago/).waitFor();
      await page.getByText("has not collected the result yet").waitFor();
      const { status, body } = await collect(id);
      assert.equal(status, 200);
      assert.match(String(body["certificate"]), /^ssh-ed25519-cert-v01@openssh\.com /);
      await page.getByText("The broker has collected the result.").waitFor();
      assert.deepEqual(complaints, []);
    }),
);

browserTest(
  "without scripts an approver approves, denies and learns by the form alone",
  () =>
    onStage({ scripts: false }, async ({ ask, collect, session }) => {
      const page = await session.newPage();
      const open = async (command: string) => {
        const id = await ask({ command });
        await page.goto(`/ui/approvals/${id}`);
        return id;
      };
      const denied = await open("printf no");
      await page.getByRole("button", { name: "Deny" }).click();
      await page.getByText(/^Denied by approver-local .* ago/).waitFor();
      assert.equal(new URL(page.url()).pathname, `/ui/approvals/${denied}`);
      assert.equal((await collect(denied)).status, 403);

      const approved = await open("printf yes");
      await page.getByRole("button", { name: "Approve once" }).click();
      await page.getByText(/^Approved by approver-local .* ago/).waitFor();
      assert.equal((await collect(approved)).status, 200);

      const learned = await open("printf often");
      await page.getByLabel("For").selectOption("custom");
      await page.getByLabel("Number").fill("0");
      await page.getByLabel("Unit").selectOption("minutes");
      await page.getByRole("button", { name: "Approve and learn" }).click();
      await page.getByText("Enter how long to learn").waitFor();
      assert.equal(await page.getByLabel("Number").inputValue(), "0");
      await page.getByLabel("Number").fill("45");
      await page.getByRole("button", { name: "Approve and learn" }).click();
      await page.getByText("After the collection, identical requests need no approval for 45 min.").waitFor();
      assert.equal((await collect(learned)).status, 200);
    }),
);

browserTest(
  "an interactive shell reads like one: on the page, in the list, in the log and for broker-ctl",
  () => {
    const host = { user: "deploy", host_key: PUBLIC_KEY, principal: "host:web02", groups: ["local"] };
    const shell = { host: "web02", purpose: "session", session_mode: "shell", session_max_seconds: 1800 };
    const asked = "for an interactive shell, as deploy, on web02; what is typed there is not shown to you; " +
      "it may live 30 minutes";
    return withStage({
      controlPlane: true,
      signer: [...OPEN_POLICY, { path: ["hosts", "web02"], value: { ...host, addr: "10.0.0.2:22" } }],
      controlPlaneConfig: [{ path: ["behavior"], value: { mode: "enforce" } }],
    }, async (stage) => {
      await stage.startSigner();
      const controlPlane = await stage.startControlPlane();
      const broker = await stage.controlPlaneClient("broker");
      const sign = async (fields: Record<string, unknown>) => {
        const body = { host: HOST, role: "target", purpose: "oneshot", public_key: PUBLIC_KEY, ...fields };
        return (await post(broker, "/v1/sign", body)).status;
      };
      // No request counts as new until a baseline exists.
      assert.equal(await sign({ command: "uptime" }), 200);
      assert.equal(await sign({ ...shell, reason: "a look around" }), 202);
      await using browser = await TestBrowser.start();
      await using session = await approverSession(stage, browser, { scripts: true });
      const page = await session.newPage();
      await page.goto("/");
      await page.getByRole("cell", { name: "Interactive shell", exact: true }).waitFor();
      await page.getByRole("link", { name: /^Review.*Interactive shell on web02/ }).click();
      await page.getByText(`asks ${asked}.`).waitFor();
      await page.getByText("a look around").waitFor();
      assert.equal(await page.getByText("run this command").count(), 0);
      assert.ok(controlPlane.log.includes(`asks=\\"${asked}\\"`), controlPlane.log);
      const { stdout } = await runBrokerCtl(
        ["approval", "list", "--client-config", stage.init.client_config],
        "/",
      );
      assert.ok(new TextDecoder().decode(stdout).includes(`${asked}  `));
    });
  },
);
