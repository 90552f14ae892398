import assert from "node:assert/strict";
import { createFolder, names } from "../adapters/ctl_fixture.ts";
import { availableKinds as availableServers } from "../kubernetes/start.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { ROOT } from "../stage/service_command.ts";

const STEPS =
  ("init start hosts run run_http denied smuggling certificate approval_asked self_approval approval " +
    "approval_learned frozen stolen audit").split(" ");

const CLUSTER_STEPS = "enrol start list logs delete_refused apply_asked apply_approved token_frozen audit"
  .split(" ");

/** The demo, with its temporary directory inside the given one. */
function startDemo(
  folder: string,
  launcher: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
  options: readonly string[] = [],
): Deno.ChildProcess {
  const permissions = ["read", "write", "net=127.0.0.1", "run", "env", "sys"].map((name) =>
    `--allow-${name}`
  );
  const [program = "", ...words] = [...launcher, Deno.execPath()];
  return new Deno.Command(program, {
    args: [
      ...words,
      "run",
      "-q",
      "--no-prompt",
      "--cached-only",
      ...permissions,
      `${ROOT}tests/demo/main.ts`,
      "--json",
      ...options,
    ],
    env: { TMPDIR: folder, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
}

/** Processes with a path in the directory on their command line. */
async function processesOf(folder: string): Promise<string> {
  const { stdout } = await new Deno.Command("ps", { args: ["-eo", "pid,args"] }).output();
  const lines = new TextDecoder().decode(stdout).split("\n");
  return lines.filter((line) => line.includes(`${folder}/`)).join("\n");
}

Deno.test.each([
  { name: "demo", options: [], expected: STEPS },
  { name: "demo --kubernetes", options: ["--kubernetes"], expected: CLUSTER_STEPS },
])("deno task $name completes each step and leaves nothing behind", async ({ options, expected }) => {
  await using folder = await createFolder();
  const { code, stdout } = await startDemo(folder.path, [], {}, options).output();
  const steps = new TextDecoder().decode(stdout).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(steps.map(({ step, ok, shows }) => ok ? step : `${step}: ${shows}`), expected);
  assert.equal(code, 0);
  if (options.length > 0) assert.equal(steps[0].server, availableServers()[0]);
  assert.deepEqual(await names(folder.path), []);
  assert.equal(await processesOf(folder.path), "");
});

const mayNotLogIn = Deno.uid() === 0 && availableKinds().includes("openssh");

Deno.test("deno task demo leaves no files behind if it is interrupted during an approval; if sshd permits no login (needs root), it uses the embedded server and reports why", async () => {
  await using folder = await createFolder();
  const launcher = mayNotLogIn ? ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] : [];
  // REQUIRE_REAL_SERVERS=1 forbids a stand-in.
  const demo = startDemo(folder.path, launcher, mayNotLogIn ? { REQUIRE_REAL_SERVERS: "" } : {});
  let text = "";
  for await (const part of demo.stdout.pipeThrough(new TextDecoderStream())) {
    text += part;
    // Only once, because the step after this one waits.
    if (part.includes('"step":"certificate"')) demo.kill("SIGINT");
  }
  assert.equal((await demo.status).code, 130);
  assert.deepEqual(await names(folder.path), []);
  assert.equal(await processesOf(folder.path), "");
  if (!mayNotLogIn) return;
  const [init, start] = text.split("\n").slice(0, 2).map((line) => JSON.parse(line));
  assert.deepEqual([init.ok, init.target, start.ok], [true, "embedded", true]);
  assert.match(init.reason, /sshd lets nobody in: /);
  assert.ok(init.shows.includes(`an embedded SSH server, because ${init.reason}`), init.shows);
});
