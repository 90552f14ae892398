import assert from "node:assert/strict";
import { assertLogVerifies, recordsOf } from "../stage/audit.ts";
import { createFolder } from "../stage/folder.ts";
import { freePort } from "../stage/free_port.ts";
import { HOST, post } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { PUBLIC_KEY } from "../../control_plane/testing/sample_approval.ts";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { callbackOf, signIn, startProvider } from "./sign_in_scene.ts";

const POLICY = {
  path: ["command_policies", "starter"],
  value: { mode: "allowlist", allow: ["^id$"], require_approval: ["^id$"] },
};

/** Another name than the provider's, so that cookies between the two are those between sites. */
const ORIGIN = `https://localhost:${freePort()}`;

browserTest(
  "an approver without a certificate signs in at a real provider, approves and signs out",
  async () => {
    await using folder = await createFolder();
    const { provider: started, config: controlPlaneConfig } = await startProvider(ORIGIN, folder.path);
    await using _provider = started;
    await withStage({ controlPlane: true, signer: [POLICY], controlPlaneConfig }, async (stage) => {
      await stage.startSigner();
      await stage.startControlPlane();
      const broker = await stage.controlPlaneClient("broker");
      const body = { host: HOST, role: "target", purpose: "oneshot", public_key: PUBLIC_KEY, command: "id" };
      const { approval_id: id } = (await post(broker, "/v1/sign", body)).body as {
        readonly approval_id: string;
      };
      await using browser = await TestBrowser.start();
      await using session = await browser.plainSession(ORIGIN, { ignoreHTTPSErrors: true });
      const page = await session.newPage();
      const callbacks: string[] = [];
      page.on("request", (request) => {
        if (request.url().startsWith(callbackOf(ORIGIN))) callbacks.push(request.url());
      });

      assert.equal((await page.goto(`/ui/approvals/${id}`))?.status(), 401);
      assert.deepEqual(await violationsOf(page), []);
      await signIn(page, "ann@example.com");
      await page.waitForURL(`${ORIGIN}/ui/approvals/${id}`);
      assert.equal(await page.locator(".who p").textContent(), "Signed in as ann@example.com");
      assert.deepEqual(await violationsOf(page), []);
      await page.getByRole("button", { name: "Approve once" }).click();
      await page.getByText(/^Approved by ann@example\.com .* ago/).waitFor();
      const result = await broker.request({ method: "GET", path: `/v1/sign/result/${id}` });
      assert.equal(result.status, 200, result.text);

      // The browser withholds the strict cookie from this link.
      const body2 = `<a href="${ORIGIN}/ui/approvals/${id}">link</a>`;
      await session.route(
        "https://chat.example/",
        (route) => route.fulfill({ body: body2, contentType: "text/html" }),
      );
      await page.goto("https://chat.example/");
      await page.getByRole("link", { name: "link" }).click();
      await page.getByText("The broker has collected the result.").waitFor();

      assert.equal(callbacks.length, 1);
      assert.equal((await page.goto(callbacks[0] ?? ""))?.status(), 401, "a replayed response");
      await page.goto("/ui/approvals");
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "Signed out" }).waitFor();
      assert.equal((await page.goto("/ui/approvals"))?.status(), 401);

      const { control_plane_audit_log: log, control_plane_audit_key: key } = stage.init;
      const outcomes = (await recordsOf(log)).map(({ outcome }) => outcome);
      const decision = ["approval-required", "signed-in", "approval-decision-allow", "approval-granted"];
      assert.deepEqual(outcomes, [...decision, "denied", "signed-out"]);
      await assertLogVerifies(log, key);
    });
  },
);
