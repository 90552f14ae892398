import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";
import { createFolder } from "./ctl_fixture.ts";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
/** A port that nothing listens on. */
const CLOSED = "127.0.0.1:1";

/** Runs `broker-ctl` under its own permissions. */
async function brokerCtl(cwd: string, args: readonly string[], path = Deno.env.get("PATH") ?? "") {
  const program = ["--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", `${ROOT}ctl/main.ts`];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...program, ...args],
    cwd,
    stdin: "null",
    env: { NO_COLOR: "1", PATH: path },
  }).output();
  return { success, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

Deno.test("commands that start ssh can do so under their own permissions", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  await Deno.writeTextFile(`${cwd}/ssh_config`, `Host db01\n  HostName 10.0.0.9\n`);
  const host = `web01=${CLOSED},user=deploy,key=${KEY}`;
  const init = await brokerCtl(
    cwd,
    ["init", "--dir", "gw", "--host", host, "--import-ssh-config", "ssh_config"],
  );
  assert.equal(init.success, true, init.text);
  assert.match(init.text, /db01/);
  const config = ["--config", "gw/signer.json"];
  const scan = ["--name", "web02", "--addr", CLOSED, "--user", "deploy", "--groups", "local", "--scan"];
  for (
    const args of [
      ["host", "add", ...config, ...scan],
      ["host", "enrol", "web01", ...config, "--over", "ssh"],
      ["host", "unenrol", "web01", ...config, "--over", "ssh"],
      ["host", "install-shim", "web01", ...config, "--over", "ssh"],
      ["ca", "rotate", "status", ...config, "--over", "ssh"],
      ["doctor", ...config, "--live", "--over", "ssh"],
    ]
  ) {
    const { text } = await brokerCtl(cwd, args);
    // What they say then shows that the program ran.
    assert.match(text, /refused|No Ed25519 host key/, `${args.join(" ")}: ${text}`);
    assert.doesNotMatch(text, /Cannot start|run access/);
  }
});

Deno.test("reload --pid-file signals the signer of the config, and nobody else", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  const script = `#!/bin/sh\ntrap 'kill $!; exit 42' HUP\nsleep 600 &\necho ready\nwait\n`;
  await Deno.writeTextFile(`${cwd}/signer`, script, { mode: 0o755 });
  const signer = new Deno.Command(`${cwd}/signer`, {
    args: ["--config", `${cwd}/signer.json`],
    stdout: "piped",
    stdin: "null",
  }).spawn();
  const output = signer.stdout.getReader();
  await output.read();
  await Deno.writeTextFile(`${cwd}/signer.pid`, `${signer.pid}\n`);
  await Deno.writeTextFile(`${cwd}/other.pid`, `${Deno.pid}\n`);
  await Deno.writeTextFile(`${cwd}/all.pid`, "-1\n");
  const reload = (file: string, config = "signer.json") =>
    brokerCtl(cwd, ["reload", "--pid-file", file, "--config", config, "--url", CLOSED]);
  assert.match((await reload("signer.pid", "else.json")).text, /no signal was sent: process \d+ is not the/);
  assert.match((await reload("other.pid")).text, /no signal was sent: process \d+ is not the signer of/);
  assert.match((await reload("none.pid")).text, /Cannot read pid file ".*none\.pid": no such file/);
  assert.match((await reload("all.pid")).text, /Cannot use ".*all\.pid": expected the number of a process/);
  const { success, text } = await reload("signer.pid");
  assert.deepEqual([success, text], [true, `SIGHUP sent to signer (PID ${signer.pid})\n`]);
  assert.equal((await signer.status).code, 42);
  await output.cancel();
  assert.match((await reload("signer.pid")).text, /no signal was sent: process \d+ is not there any more/);
});

Deno.test("init --register-mcp hands the broker to claude, and says how where that fails", async () => {
  await using folder = await createFolder();
  const cwd = folder.path;
  const path = `${cwd}/bin:${Deno.env.get("PATH")}`;
  await Deno.mkdir(`${cwd}/bin`);
  const claude = (last: string) =>
    Deno.writeTextFile(`${cwd}/bin/claude`, `#!/bin/sh\nprintf '%s\\n' "$@" > ${cwd}/words\n${last}\n`, {
      mode: 0o755,
    });
  await claude("echo it is there >&2; exit 1");
  const refused = await brokerCtl(cwd, ["init", "--dir", "first", "--register-mcp"], path);
  assert.ok(refused.success, refused.text);
  assert.match(
    refused.text,
    /claude did not take .*: it is there\nWhen that is mended:\n {3}claude mcp add gateway -- /,
  );
  await claude("exit 0");
  const taken = await brokerCtl(cwd, ["init", "--dir", "second", "--register-mcp", "--json"], path);
  const { mcp_registered, mcp_server } = JSON.parse(taken.text);
  assert.equal(mcp_registered, true);
  const words = (await Deno.readTextFile(`${cwd}/words`)).trimEnd().split("\n");
  assert.deepEqual(words, ["mcp", "add", "gateway", "--", mcp_server.command, ...mcp_server.args]);
});
