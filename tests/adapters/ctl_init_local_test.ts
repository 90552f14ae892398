import assert from "node:assert/strict";
import { brokerConfig } from "@gateway/broker/config";
import { loadConfig } from "@gateway/shared/config";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { editConfig } from "../stage/stage.ts";
import { createFolder, names, run, runInTerminal } from "./ctl_fixture.ts";

const OTHER_HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";

Deno.test.each<{ name: string; dir: string; spoil: (path: string) => Promise<void> }>([
  { name: "below a git work tree", dir: "clone/a/b", spoil: (path) => Deno.mkdir(`${path}/clone/.git`) },
  {
    name: "that is a linked git work tree",
    dir: "clone",
    spoil: (path) => Deno.writeTextFile(`${path}/clone/.git`, "gitdir: /elsewhere"),
  },
  {
    name: "that is a symlink into a git work tree",
    dir: "link/a",
    spoil: async (path) => {
      await Deno.mkdir(`${path}/clone/.git`);
      await Deno.symlink("clone", `${path}/link`);
    },
  },
])("init rejects a directory $name, also with --local and --force", async ({ dir, spoil }) => {
  await using folder = await createFolder();
  await Deno.mkdir(`${folder.path}/clone`, { mode: 0o755 });
  await spoil(folder.path);
  for (const flags of [[], ["--local"], ["--force"]]) {
    const { exit, err } = await run(folder.path, "init", "--dir", dir, ...flags);
    assert.equal(exit, 2);
    assert.match(
      err,
      /is a git work tree or source checkout; pass --dir with another/,
    );
  }
  assert.deepEqual((await names(`${folder.path}/clone`)).filter((name) => name !== ".git"), []);
});

Deno.test("init rejects this source checkout, also without .git", async () => {
  const { exit, err } = await run("/", "init", "--dir", new URL("../../ctl", import.meta.url).pathname);
  assert.equal(exit, 2);
  assert.match(err, /source checkout/);
});

Deno.test("init writes to the user's config directory and not to the working directory", async () => {
  await using folder = await createFolder();
  const init = (variables: Record<string, string>) =>
    runInTerminal({ workingFolder: folder.path, variables }, "init", "--local", "--json");
  const homeless = await init({});
  assert.match(homeless.err, /HOME is not set; pass --dir/);
  assert.equal(JSON.parse((await init({ HOME: folder.path })).out).folder, `${folder.path}/.config/gateway`);
  const { out } = await init({ HOME: "/nowhere", XDG_CONFIG_HOME: `${folder.path}/xdg` });
  assert.equal(JSON.parse(out).mcp_config, `${folder.path}/xdg/gateway/mcp.json`);
  assert.deepEqual(await names(folder.path), [".config", "xdg"]);
});

const KEYED = `web01=deploy@10.0.0.5,key=${SAMPLE_HOST_KEY}`;

Deno.test("init --local creates one config, adds hosts to it and never changes a host", async () => {
  await using folder = await createFolder();
  const init = (...args: string[]) => run(folder.path, "init", "--local", "--dir=g", ...args);
  const first = await init("--host", KEYED, "--json");
  assert.equal(first.exit, 0, first.err);
  assert.deepEqual(await names(`${folder.path}/g`), ["log", "mcp.json", "pki", "policy_tests.jsonc"]);
  const tested = await run(folder.path, "policy test --config g/mcp.json");
  assert.match(tested.out, /\n3 passed, 0 failed\n$/, tested.err);
  assert.deepEqual(await names(`${folder.path}/g/pki`), ["mcp_audit.seed", "ssh_ca", "ssh_ca.pub"]);
  const { mcp_config, ssh_ca_public_key } = JSON.parse(first.out);
  const written = await Deno.readTextFile(mcp_config);

  const again = await init("--host", KEYED, "--json");
  assert.equal(JSON.parse(again.out).ssh_ca_public_key, ssh_ca_public_key);
  assert.equal(await Deno.readTextFile(mcp_config), written);
  assert.equal((await init("--host", KEYED.replace("web01", "web02"))).exit, 0);
  const path = mcp_config;
  const { hosts } = await loadConfig({ path, what: "broker config", schema: brokerConfig });
  assert.deepEqual(Object.keys(hosts), ["web01", "web02"]);
  const listed = await run(folder.path, "host", "list", "--config", path);
  assert.match(listed.out, /web02 +10\.0\.0\.5:22 +deploy/);
  const explained = await run(folder.path, "policy explain --host web02 --command id --config", path);
  assert.match(explained.out, /denied/);

  const before = await Deno.readTextFile(path);
  for (const host of [KEYED.replace("deploy@", "root@"), KEYED.replace(SAMPLE_HOST_KEY, OTHER_HOST_KEY)]) {
    const refused = await init("--host", host);
    assert.equal(refused.exit, 1);
    assert.match(
      refused.err,
      /Cannot use web01 .*attacker's key; the config has web01 \(deploy@10\.0\.0\.5:22\) SHA256:.*\nfix: check the key/,
    );
  }
  assert.equal(await Deno.readTextFile(path), before);
  const services = await run(folder.path, "init", "--dir=g");
  assert.match(services.err, /"mcp\.json" exists\nfix: .*--from-local/);
});

Deno.test.each([
  { args: ["--local", "--direct"], says: /'--direct' has no effect with --local/ },
  { args: ["--local", "--from-local", "x"], says: /'--from-local' has no effect with --local/ },
  { args: ["--from-local", "x", "--host", KEYED], says: /'--host' has no effect with --from-local/ },
  { args: ["--from-local", "none"], says: /Cannot find a local installation/ },
])("init rejects $args", async ({ args, says }) => {
  await using folder = await createFolder();
  const { err, exit } = await run(
    folder.path,
    "init",
    ...args[0] === "--from-local" ? [] : ["--dir=."],
    ...args,
  );
  assert.notEqual(exit, 0);
  assert.match(err, says);
  assert.deepEqual(await names(folder.path), []);
});

Deno.test("doctor, status, host and backup know a local installation", async () => {
  await using folder = await createFolder();
  const config = ["--config", "gateway/mcp.json"];
  const ctl = (...args: string[]) => run(folder.path, ...args, ...config);
  const key = `key=${SAMPLE_HOST_KEY}`;
  await run(folder.path, "init", "--local", "--dir=gateway", "--host", `web01=a@10.0.0.1,${key}`);

  const bare = await ctl("doctor");
  assert.equal(bare.exit, 1);
  assert.match(bare.out, /\[FAIL\] .*mcp\.json: ca_key is a key in a file[^]*"ca_keys": /);
  assert.match(bare.out, /1 WARN, 0 UNKNOWN, 1 FAIL[^]*doctor --level lab --config gateway\/mcp\.json\n$/);
  assert.match((await ctl("doctor", "--level", "lab")).out, / 0 WARN, 0 UNKNOWN, 0 FAIL\nAll checks passed/);
  await Deno.chmod(`${folder.path}/gateway/pki/ssh_ca`, 0o644);
  assert.match((await ctl("doctor", "--level", "lab")).out, /WARN\] .*ca_key .*ssh_ca/);
  await Deno.chmod(`${folder.path}/gateway/pki/ssh_ca`, 0o600);

  assert.match((await ctl("status")).out, /local installation: one process without a monitor/);
  const added = await ctl(
    ..."host add --name web02 --addr 10.0.0.2:22 --user a --host-key".split(" "),
    SAMPLE_HOST_KEY,
  );
  assert.match(added.out, /^host "web02" added .*\nNot yet active. To apply it: restart the MCP client\n$/);
  assert.equal((await ctl("host", "remove", "web01")).exit, 0);
  assert.deepEqual(Object.keys(JSON.parse((await ctl("host", "list", "--json")).out)), ["web02"]);
  for (const args of [["host", "remove", "web02", "--reload"], ["host", "seal", "web02"]]) {
    const { exit, err } = await ctl(...args);
    assert.deepEqual([exit, /has no signer\nfix: /.test(err)], [1, true], err);
  }

  await Deno.writeTextFile(`${folder.path}/gateway/log/mcp/audit.log`, "");
  const value = `${folder.path}/gateway/policy_tests.jsonc`;
  await editConfig(`${folder.path}/gateway/mcp.json`, [{ path: ["policy_tests"], value }]);
  const { files } = JSON.parse((await ctl("backup", "saved", "--json")).out) as {
    files: readonly { readonly path: string; readonly kind: string }[];
  };
  assert.deepEqual(files.map(({ kind, path }) => [kind, path.slice(folder.path.length)]), [
    ["config", "/gateway/mcp.json"],
    ["policy_tests", "/gateway/policy_tests.jsonc"],
    ["audit_log", "/gateway/log/mcp/audit.log"],
  ]);
});
