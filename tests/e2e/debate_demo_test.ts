import assert from "node:assert/strict";
import { names } from "../adapters/ctl_fixture.ts";
import { freePort } from "../stage/free_port.ts";
import { ROOT } from "../stage/service_command.ts";

const PERMISSIONS = ["read", "write", "net=127.0.0.1", "run", "env", "sys"].map((name) => `--allow-${name}`);

/** The demo, whose temporary folder is made in the given one. */
async function play(args: readonly string[], folder: string) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-q",
      "--no-prompt",
      "--cached-only",
      ...PERMISSIONS,
      `${ROOT}tests/demo_debate/main.ts`,
      ...args,
    ],
    env: { TMPDIR: folder },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

// The others play with their tools in an adapter's test.
Deno.test("the demo plays memory_leak with tools that find what they look for, and leaves nothing behind", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const { code, out, err } = await play(["--scenario", "memory_leak"], folder);
    assert.equal(code, 0, err);
    assert.match(out, /^Final result\n/);
    assert.match(out, /debate:demo --serve --scenario memory_leak\n$/);
    assert.match(err, /< ok, \d+ ms\n/);
    assert.doesNotMatch(err, /< failed/);
    assert.deepEqual(await names(folder), []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the demo names the scenarios that there are", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const { code, err } = await play(["--scenario", "gone"], folder);
    assert.equal(code, 2);
    assert.match(err, /there are certificate_expired, memory_leak, slow_query/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the demo in a browser has the run ready, and leaves nothing behind", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const port = freePort();
    const demo = new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-q",
        "--no-prompt",
        "--cached-only",
        ...PERMISSIONS,
        `${ROOT}tests/demo_debate/main.ts`,
        "--serve",
      ],
      env: { TMPDIR: folder, WEB_PORT: String(port) },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = demo.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let out = "";
    const link = /http:\/\/127\.0\.0\.1:\d+\/#\/runs\/([0-9a-f]{32})\n/;
    while (!link.test(out)) {
      const { value, done } = await reader.read();
      assert.equal(done, false, out);
      out += value ?? "";
    }
    const [, id = ""] = link.exec(out) ?? [];
    const run = await (await fetch(`http://127.0.0.1:${port}/api/runs/${id}`)).json();
    assert.match(run.topic, /checkout-api|memory/i);
    demo.kill("SIGTERM");
    assert.equal((await demo.status).code, 0);
    await reader.cancel();
    assert.deepEqual(await names(folder), []);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
