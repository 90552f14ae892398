import assert from "node:assert/strict";
import { approvalOf } from "../../control_plane/testing/sample_approval.ts";
import { browserTest, TestBrowser, violationsOf } from "./chromium.ts";
import { identityOf, startPages } from "./pages_scene.ts";

const { request } = approvalOf();
const TARGET = { user: "deploy", addr: "10.0.0.1:22", lifeSeconds: 300 };

for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
  browserTest(`axe finds nothing on any page, ${width} pixels wide, ${colorScheme}`, async () => {
    await using pages = await startPages();
    await using browser = await TestBrowser.start();
    await using session = await browser.session(pages.origin, await identityOf("approver-1"), {
      colorScheme,
      viewport: { width, height: 844 },
    });
    await using strangers = await browser.session(pages.origin, await identityOf("broker-1"));
    const page = await session.newPage();
    const check = async (path: string, on = page) => {
      await on.goto(path);
      assert.deepEqual(await violationsOf(on), [], path);
    };
    await check("/ui/approvals");
    const shell = await pages.park({
      command: "",
      request: {
        ...request,
        command: "",
        purpose: "session",
        session_mode: "shell",
        session_max_seconds: 1800,
      },
      sudo: true,
      rule: "behavior",
      anomalies: ["new-host:web01"],
      target: TARGET,
    });
    const write = await pages.park({
      command: "cat > '/etc/app.conf'",
      request: {
        ...request,
        command: "cat > '/etc/app.conf'",
        file_transfer: true,
        content_sha256: "ab".repeat(32),
        content_bytes: 3,
        content_head: "a\u202eb",
        reason: "deploy 4711",
      },
      endUser: "alice@example.com",
      rule: "require_approval:^cat ",
      target: TARGET,
    });
    const own = await pages.park({ caller: "approver-1", command: "c\u0430t \x1b[2J" });
    const decided = await pages.park({ command: "uptime" });
    await pages.controlPlane.decide(decided, { approve: true, comment: "fine" });
    await check("/ui/approvals");
    for (const id of [shell, write, own, decided]) await check(`/ui/approvals/${id}`);
    await check("/ui/approvals/0123");
    await check("/ui/approvals", await strangers.newPage());
  });
}
