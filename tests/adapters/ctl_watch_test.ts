import assert from "node:assert/strict";
import { join } from "node:path";
import { poll } from "../stage/poll.ts";
import { ROOT } from "../stage/service_command.ts";
import { createOperator } from "./ctl_signer_fixture.ts";
import { run } from "./ctl_fixture.ts";
import { startServer } from "./mtls_fixture.ts";

const ID = "0123456789abcdef0123456789abcdef";
const PENDING = {
  id: ID,
  caller: "broker-local",
  end_user: "ann\x1b[2J",
  host: "web01",
  command: "systemctl restart nginx",
  rule: "require_approval:^systemctl restart ",
  status: "pending",
  created_at: "2026-01-02T03:04:05Z",
  decided_at: "0001-01-01T00:00:00Z",
  expires_at: "2026-01-02T03:06:05Z",
};

/** A control plane with one request, which is as it was decided. */
async function startControlPlane() {
  const decisions: unknown[] = [];
  let status = "pending";
  const server = await startServer(async (request) => {
    if (request.method === "POST") {
      const body = JSON.parse(await request.text());
      decisions.push(body);
      status = body.approve ? "approved" : "denied";
      return Response.json({ ...PENDING, status });
    }
    return Response.json([{ ...PENDING, status }]);
  });
  return { server, decisions };
}

Deno.test("approval watch shows a request at a terminal, takes the decision by keys and gives the terminal back", async () => {
  const { server, decisions } = await startControlPlane();
  await using _server = server;
  await using operator = await createOperator(server);
  const ctl = [
    Deno.execPath(),
    "run",
    "--quiet",
    "--no-check",
    "--no-prompt",
    "--cached-only",
    "-P=broker-ctl",
  ];
  const words = [...ctl, join(ROOT, "ctl/main.ts"), "approval", "watch", "--client-config", "client.json"];
  // Asks the terminal for its settings before and after: they have to be the same.
  const inner = `stty -g; ${words.join(" ")}; echo "ended $?"; stty -g`;
  const child = new Deno.Command("script", {
    args: ["--quiet", "--return", "--command", inner, "/dev/null"],
    cwd: operator.path,
    env: { NO_COLOR: "1", SHELL: "/bin/sh" },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let shown = "";
  const collected = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) shown += text;
  })();
  const keys = child.stdin.getWriter();
  const type = (key: string) => keys.write(new TextEncoder().encode(key));
  await poll(() => shown.includes("q quit"), { what: "the request" });
  assert.match(shown, /command\s+"systemctl restart nginx"/);
  assert.equal(shown.includes("\x1b[2J"), false);
  // What is typed too soon counts for nothing: a key that means nothing is typed until it counts, and then those that do.
  await poll(async () => {
    await type("x");
    return shown.split("q quit").length > 2;
  }, { what: "a key that counts" });
  await type("a");
  await type("y");
  await poll(() => shown.includes(`request ${ID} approved`), { what: "the decision" });
  assert.match(shown, new RegExp(`allow ${ID}\\? y does it`));
  assert.deepEqual(decisions, [{ approve: true, shown_ids: [ID] }]);
  await poll(() => shown.includes("(nothing waits; q quits)"), { what: "the end of the list" });
  await type("q");
  await poll(() => /ended 0/.test(shown), { what: "the end" });
  await keys.close();
  await child.status;
  await collected;
  const settings = shown.split(/\r?\n/).filter((line) => /^[0-9a-f]+(?::[0-9a-f]+)+$/.test(line));
  assert.equal(settings.length, 2, shown);
  assert.equal(settings[0], settings[1]);
});

Deno.test("approval watch wants a terminal", async () => {
  const { exit, err } = await run("/tmp", "approval", "watch");
  assert.equal(exit, 2);
  assert.match(err, /standard input is no terminal\nhint: broker-ctl approval list --status pending --json/);
});
