import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";
import { createFolder } from "./ctl_fixture.ts";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
/** A port that nothing listens on. */
const CLOSED = "127.0.0.1:1";

/** Runs `broker-ctl` under its own permissions. */
async function brokerCtl(cwd: string, args: readonly string[]) {
  const program = ["--quiet", "--no-prompt", "--cached-only", "-P=broker-ctl", `${ROOT}ctl/main.ts`];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...program, ...args],
    cwd,
    stdin: "null",
    env: { NO_COLOR: "1" },
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
    ]
  ) {
    const { text } = await brokerCtl(cwd, args);
    // What they say then shows that the program ran.
    assert.match(text, /refused|No Ed25519 host key/, `${args.join(" ")}: ${text}`);
    assert.doesNotMatch(text, /Cannot start|run access/);
  }
});
