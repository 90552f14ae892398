import assert from "node:assert/strict";
import { ROOT } from "../stage/service_command.ts";
import { editConfig, HOST, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createFolder, run } from "../adapters/ctl_fixture.ts";
import { scanHostKey } from "../../ctl/hosts/add.ts";
import { freePort } from "../stage/free_port.ts";
import { currentUser, startSshTarget } from "../ssh_target/target.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";

const PROGRAM = `${ROOT}deploy/gateway.ts`;

async function gateway(args: readonly string[], permissions: readonly string[] = []) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-prompt", "--cached-only", "--no-check", ...permissions, PROGRAM, ...args],
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

Deno.test.each<{ name: string; args: readonly string[]; code: number; out: RegExp; err: RegExp }>([
  {
    name: "nothing",
    args: [],
    code: 2,
    out: /^$/,
    err: /^gateway: a command is required\n\nUsage: gateway /,
  },
  {
    name: "an unknown command",
    args: ["srve"],
    code: 2,
    out: /^$/,
    err: /unknown command "srve"\n\nUsage: /,
  },
  { name: "help", args: ["help"], code: 0, out: /^$/, err: /^Usage: gateway / },
  { name: "-version", args: ["-version"], code: 0, out: /^\S+\n$/, err: /^$/ },
  { name: "version --verbose", args: ["version", "--verbose"], code: 0, out: /deno/i, err: /^$/ },
  { name: "init --help", args: ["init", "--help"], code: 0, out: /^Usage: broker-ctl init /, err: /^$/ },
])("gateway accepts $name", async ({ args, code, out, err }) => {
  const ended = await gateway(args, ["--allow-read"]);
  assert.equal(ended.code, code, ended.err);
  assert.match(ended.out, out);
  assert.match(ended.err, err);
});

Deno.test("gateway serve-mcp -config= loads the named file and exits with 1 if it cannot", async () => {
  const { code, err } = await gateway(["serve-mcp", "-config=/no/such.json"], [
    "--allow-read",
    "--ignore-env",
  ]);
  assert.equal(code, 1);
  assert.match(err, /Cannot load broker config "\/no\/such.json": no such file/);
});

Deno.test("gateway init creates the installation of broker-ctl init", async () => {
  await using dir = await createFolder();
  const { code, out, err } = await gateway(
    ["init", "-dir", `${dir.path}/set`],
    ["--allow-read", `--allow-write=${dir.path}`, "--allow-sys=uid", "--ignore-env"],
  );
  assert.equal(code, 0, err);
  assert.match(out, /^Installation in /);
  const names = [...Deno.readDirSync(`${dir.path}/set`)].map(({ name }) => name);
  for (const name of ["config.json", "mcp.json", "signer.json", "pki"]) {
    assert.ok(names.includes(name), name);
  }
});

Deno.test("gateway init with the broker's permissions fails and names broker-ctl init", async () => {
  const set = [`--config=${ROOT}broker/deno.json`, "-P=gateway"];
  const { code, err } = await gateway(["init"], set);
  assert.equal(code, 1);
  assert.match(
    err,
    /cannot run init: this program has only the permissions of the broker\n {2}fix: broker-ctl init\n/,
  );
});

/** Runs `broker-ctl` like an operator who repeats the same commands. */
async function ctl({ init }: Stage, ...args: string[]) {
  const files = ["--config", init.signer_config, "--client-config", init.client_config];
  const { code, stdout, stderr } = await runBrokerCtl([...args, ...files], init.folder);
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

async function startSecond(stage: Stage, dir: string) {
  const second = await startSshTarget({
    caPublicKeyLine: stage.init.ssh_ca_public_key,
    principals: { [currentUser()]: ["host:web02"] },
    dir,
  });
  stage.defer(() => second.close());
  return second;
}

Deno.test("one command adds a host that works in an open session, and one command removes it", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const dir = await Deno.makeTempDir({ dir: stage.init.folder });
    const second = await startSecond(stage, dir);
    const networks = { path: ["networks", -1], value: `127.0.0.0/8:${second.port}` };
    await editConfig(stage.init.mcp_config, [networks]);
    await stage.startSigner();
    await stage.startControlPlane();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    const run = async (server: string) => {
      const { content, structuredContent } = await mcp.call("ssh_execute", { server, command: "uptime" });
      return { text: String(content[0].text), exit: structuredContent?.exit_code };
    };
    assert.equal((await run(HOST)).exit, 0);
    assert.match((await run("web02")).text, /unknown host/);
    const open = await mcp.call("ssh_session_open", { server: HOST });
    const session = { session_id: open.structuredContent.session_id, command: "uptime" };
    const files = [stage.init.mcp_config, stage.init.broker_config, stage.init.control_plane_config];
    const read = () => Promise.all(files.map((file) => Deno.readTextFile(file)));
    const before = await read();

    const added = await ctl(
      stage,
      ...["host", "add", "--name", "web02", "--addr", `127.0.0.1:${second.port}`, "--user", second.user],
      ...["--host-key", second.hostKeyLine, "--groups", "local", "--reload"],
    );
    assert.equal(added.code, 0, added.err);
    assert.match(added.out, /^host "web02" added .*\n[\s\S]*signer reloaded via HTTP \(hosts: 2\)\n$/);
    assert.doesNotMatch(added.out, /"mcp\.json" may not connect/);
    assert.deepEqual([await run("web02"), (await run(HOST)).exit].map((one) => Object(one).exit ?? one), [
      0,
      0,
    ]);
    assert.equal((await mcp.call("ssh_session_exec", session)).structuredContent?.exit_code, 0);
    assert.deepEqual(await read(), before, "no file but the signer's config changes");

    // Listed, but at an address missing from the process's permissions: the message names the keys to check.
    const third = ["host", "add", "--name", "web03", "--user", second.user, "--host-key", second.hostKeyLine];
    const address = `127.0.0.1:${stage.target.port === 22 ? 23 : 22}`;
    const beyond = await ctl(stage, ...third, "--addr", address, "--groups", "local", "--reload");
    assert.match(beyond.out, /the broker of "mcp\.json" may not connect to 127\.0\.0\.1:\d+: add/);
    assert.match(
      (await run("web03")).text,
      /this broker must not connect to the host's address \(networks/,
    );

    const removed = await ctl(stage, "host", "remove", "web02", "--reload");
    assert.equal(removed.code, 0, removed.err);
    assert.match((await run("web02")).text, /unknown host/);
    assert.equal((await run(HOST)).exit, 0);
    assert.equal(await mcp.end(), 0);
  }));

Deno.test("host add --scan accepts only the host key of the config, unless its fingerprint is passed", () =>
  withStage({}, async ({ target }) => {
    await using folder = await createFolder();
    const addr = `127.0.0.1:${target.port}`;
    const init = await run(
      folder.path,
      "init",
      "--dir=.",
      "--host",
      `web01=${addr},user=ann,key=${SAMPLE_HOST_KEY}`,
    );
    assert.equal(init.exit, 0, init.err);
    const path = `${folder.path}/signer.json`;
    const before = await Deno.readTextFile(path);
    const { fingerprint, line } = await scanHostKey(addr);
    assert.ok(target.hostKeyLine.startsWith(line));
    assert.match(fingerprint, /^SHA256:/);
    await assert.rejects(
      scanHostKey(`127.0.0.1:${freePort()}`),
      /^AppError: Cannot scan "127[^"]*": no Ed25519 host key/,
    );
    await assert.rejects(scanHostKey("-oProxyCommand=x:22"), /Cannot scan "-oProxyCommand=x:22"/);
    const scan = (...more: string[]) =>
      run(
        folder.path,
        ...["host", "add", "--name", "web01", "--addr", addr, "--force", "--scan", "--config", path],
        ...more,
      );
    const refused = await scan();
    assert.equal(refused.exit, 1);
    assert.match(refused.err, /so it may be an attacker's key\nfix: .*--new-key/);
    const known = "SHA256:AAAA";
    assert.match((await scan("--new-key", known)).err, /not "SHA256:AAAA"/);
    assert.equal(await Deno.readTextFile(path), before);
    const taken = await scan("--new-key", fingerprint);
    assert.equal(taken.exit, 0, taken.err);
    assert.ok((await Deno.readTextFile(path)).includes(line));
    assert.equal((await scan()).exit, 0, "the key that the config has");
  }));

Deno.test("host add --reload reports what it has written if the signer rejects the reload", () =>
  withStage({}, async (stage) => {
    const { code, out, err } = await ctl(
      stage,
      ...["host", "add", "--name", "web02", "--addr", "127.0.0.1:22", "--user", "ann"],
      ...["--host-key", stage.target.hostKeyLine, "--reload"],
    );
    assert.deepEqual([code, out], [1, ""]);
    assert.match(err, /^error: host "web02" added .*, but the signer did not load the change: /);
    assert.match(await Deno.readTextFile(stage.init.signer_config), /"web02"/);
  }));
