import assert from "node:assert/strict";
import { createFolder, names, run } from "../adapters/ctl_fixture.ts";
import { commandOf, readProcFile } from "../stage/proc_file.ts";
import { ROOT, START_ENV } from "../stage/service_command.ts";
import { derivePermissions } from "../../ctl/setup/service_permissions.ts";
import { McpProcess } from "./mcp_process.ts";
import { createSetUp, ENV, isReady, START, startSigner } from "./started_signer.ts";

Deno.test("ctl/start.sh executes the signer, which receives its signals and sets its exit code", async () => {
  await using folder = await createFolder();
  const { monitor } = await createSetUp(folder.path);
  const { child, log } = await startSigner(folder.path, monitor);
  try {
    const configPath = `${folder.path}/signer.json`;
    const { flags } = await derivePermissions({
      service: "signer",
      configPath,
      workingFolder: folder.path,
      frontend: "serve-http",
    });
    assert.deepEqual(
      await commandOf(child.pid),
      [Deno.execPath(), "run", ...flags, `${ROOT}signer/main.ts`, "--config", configPath],
    );
    const environment = (await readProcFile(`/proc/${child.pid}/environ`)).split("\0");
    for (const [name, value] of Object.entries(START_ENV)) {
      assert.ok(environment.includes(`${name}=${value}`));
    }
    const client = `${folder.path}/broker-ctl.json`;
    assert.equal((await run("/", "reload", "--client-config", client)).exit, 0);
  } finally {
    child.kill("SIGTERM");
  }
  const status = await child.status;
  assert.equal(status.code, 0, await log);
  assert.equal(await isReady(monitor), false);
  assert.match(await log, /"signal":"SIGTERM"/);
});

Deno.test("ctl/start.sh mcp keeps stdin and stdout for the protocol, for any path", async () => {
  await using parent = await createFolder();
  const folder = `${parent.path}/it's "a" \\ $(touch pwned) \`touch pwned\` *; touch pwned`;
  await Deno.mkdir(folder, { mode: 0o700 });
  const { monitor } = await createSetUp(folder);
  const { child, log } = await startSigner(folder, monitor);
  try {
    const args = ["mcp", "--config", `${folder}/mcp.json`];
    await using mcp = new McpProcess({ program: START, args, env: ENV, cwd: parent.path });
    const { serverInfo } = await mcp.initialize();
    assert.equal(typeof serverInfo.name, "string");
    assert.ok((await commandOf(mcp.pid)).includes(`${ROOT}broker/main.ts`));
    assert.equal(await mcp.end(), 0, mcp.log);
  } finally {
    child.kill("SIGTERM");
  }
  assert.equal((await child.status).code, 0, await log);
  assert.deepEqual(await names(parent.path), [folder.slice(parent.path.length + 1)]);
  assert.ok(!(await names(folder)).includes("pwned"));
});

Deno.test.each([
  {
    name: "without its CA key",
    spoil: (folder: string) => Deno.remove(`${folder}/pki/ssh_ca`),
    message: /Cannot read ca_key "[^"]*\/pki\/ssh_ca": no such file/,
  },
  {
    name: "with an invalid CA key",
    spoil: (folder: string) => Deno.writeTextFile(`${folder}/pki/ssh_ca`, "not a key\n"),
    message:
      /Cannot use ca_key "[^"]*\/pki\/ssh_ca": Cannot read private key: not the PEM text of exactly one key/,
  },
  {
    name: "without the directory of its audit log",
    spoil: (folder: string) => Deno.remove(`${folder}/log/signer`, { recursive: true }),
    message: /Cannot open audit log "[^"]*\/log\/signer\/audit\.log": its directory does not exist/,
  },
])("ctl/start.sh shows the error and the fix if a signer does not start $name", async (row) => {
  await using folder = await createFolder();
  await createSetUp(folder.path);
  await row.spoil(folder.path);
  const { code, stderr } = await new Deno.Command(START, {
    args: ["signer", "--config", `${folder.path}/signer.json`],
    env: ENV,
    stdin: "null",
  }).output();
  assert.notEqual(code, 0);
  assert.match(new TextDecoder().decode(stderr), row.message);
});

Deno.test.each<{ name: string; args: string[]; deno?: string; exit: number; message: RegExp }>([
  { name: "a broken config", args: ["signer"], exit: 1, message: /unknown key "host"/ },
  {
    name: "a missing config",
    args: ["broker"],
    exit: 1,
    message: /no such file\nfix: pass --config, or create a config with broker-ctl init\n$/,
  },
  {
    name: "an unknown service",
    args: ["nothing"],
    exit: 2,
    message: /Cannot start "nothing": expected signer/,
  },
  { name: "no Deno", args: ["signer"], deno: "/nonexistent/deno", exit: 127, message: /not found/ },
  { name: "a command that may be incomplete", args: ["signer"], deno: "./half", exit: 3, message: /^$/ },
])("ctl/start.sh does not start a program with $name", async ({ args, deno, exit, message }) => {
  await using folder = await createFolder();
  await Deno.writeTextFile(`${folder.path}/signer.json`, '{ "host": {} }');
  await Deno.writeTextFile(`${folder.path}/half`, "#!/bin/sh\necho 'touch' 'pwned'\nexit 3\n", {
    mode: 0o755,
  });
  const { code, stdout, stderr } = await new Deno.Command(START, {
    args,
    cwd: folder.path,
    env: { ...ENV, ...(deno !== undefined && { DENO: deno }) },
    stdin: "null",
  }).output();
  assert.equal(code, exit);
  assert.match(new TextDecoder().decode(stderr), message);
  assert.equal(stdout.length, 0);
  assert.deepEqual(await names(folder.path), ["half", "signer.json"]);
});
