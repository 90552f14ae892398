import assert from "node:assert/strict";
import { join } from "node:path";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { tryLockFile } from "@gateway/shared/files";
import { withConfig, words } from "./ctl_fixture.ts";

const WEB01 = `"web01": {
      // ann's
      "addr": "10.0.0.1:22", "user": "deploy", "host_key": "${SAMPLE_HOST_KEY}",
      "principal": "host:web01", "jump": "web02", "allow_sudo": true, "sealed_exec": true, "groups": ["local"],
      "command_policy": { "mode": "allowlist", "allow": ["^id$"] }
    }`;
const WEB02 = `"web02": { "addr": "10.0.0.2:22", "user": "deploy", "host_key": "${SAMPLE_HOST_KEY}",
      "principal": "host:web02", "allow_as_bastion": true }`;

function configWith(web01 = WEB01, more = ""): string {
  return `{
  // what the operator wrote
  "server_cert": "x", "server_key": "x", "client_ca": "x", "ca_key": "x", "envelope_key": "e",
  "audit_log": "x", "audit_key": "x", "callers": { "broker-local": { "allowed_groups": ["local"] } },
  "hosts": {
    ${web01}, // in the cellar
    ${WEB02}${more}
  }
}
`;
}

const KEYLESS = "host add --addr 10.0.0.9:22 --user dba";
const newHost = (flags = "", name = "db01") => [
  `${KEYLESS} --name ${name} ${flags}`.trim(),
  "--host-key",
  SAMPLE_HOST_KEY,
];

Deno.test("host add adds a host with defaults and leaves the rest of the config unchanged", async () => {
  await using config = await withConfig(configWith());
  const { exit, out, err } = await config.ctl(...newHost("--groups local,db --sudo --ttl 60"));
  assert.deepEqual([exit, err], [0, ""]);
  assert.equal(
    out,
    'host "db01" added (addr=10.0.0.9:22, user=dba, principal=host:db01)\n' +
      "Not yet active. To apply it: broker-ctl reload\n",
  );
  const host = {
    addr: "10.0.0.9:22",
    user: "dba",
    host_key: SAMPLE_HOST_KEY,
    principal: "host:db01",
    max_ttl_seconds: 60,
    allow_sudo: true,
    groups: ["local", "db"],
    unsealed_sessions: false,
  };
  const [before, added = ""] = (await config.read()).split(',\n    "db01": ');
  assert.equal(`${before}\n  }\n}\n`, configWith());
  assert.deepEqual(JSON.parse(added.replace(/\n {2}\}\n\}\n$/, "")), host);
});

Deno.test.each<{ name: string; flags: string | string[]; from: string; to: string }>([
  { name: "one text", flags: "--user app", from: '"user": "deploy"', to: '"user": "app"' },
  {
    name: "a switch to false",
    flags: "--sudo=false",
    from: '"allow_sudo": true',
    to: '"allow_sudo": false',
  },
  { name: "a text that is cleared", flags: ["--jump", ""], from: ' "jump": "web02",', to: "" },
  { name: "a list that is cleared", flags: ["--groups", ""], from: ', "groups": ["local"]', to: "" },
  {
    name: "one policy field",
    flags: "--policy-mode off",
    from: '"mode": "allowlist"',
    to: '"mode": "off"',
  },
  {
    name: "patterns that contain commas",
    flags: ["--allow", "^[a,b]$,^ls$", "--allow", "^w\\,x$"],
    from: '["^id$"]',
    to: '["^[a,b]$", "^ls$", "^w\\\\,x$"]',
  },
  {
    name: "patterns separated by a comma",
    flags: "--allow ^ls,^cat",
    from: '["^id$"]',
    to: '["^ls", "^cat"]',
  },
  { name: "nothing", flags: [], from: "", to: "" },
])(
  "host add --force changes $name and keeps all other fields, also those without a flag",
  async ({ flags, from, to }) => {
    await using config = await withConfig(configWith());
    const { exit, out, err } = await config.ctl("host add --name web01 --force", ...words(flags));
    assert.deepEqual([exit, err], [0, ""]);
    assert.match(out, /^host "web01" updated /);
    assert.equal(await config.read(), configWith(WEB01.replace(from, () => to)));
  },
);

Deno.test.each<{ name: string; args: string | string[]; exit?: number; err: RegExp }>([
  {
    name: "an existing name",
    args: newHost("", "web01"),
    exit: 1,
    err: /it exists\nfix: pass --force to change it/,
  },
  {
    name: "a new host without a key",
    args: `${KEYLESS} --name db01`,
    err: /Cannot add host "db01": pass --host-key or --scan/,
  },
  {
    name: "a new host without an address",
    args: "host add --name a --user u --host-key k",
    err: /Cannot add host "a": pass --addr/,
  },
  {
    name: "a name that leaves the directory",
    args: newHost("", "../x"),
    err: /Cannot add host "..\/x": expected letters, digits, dots, dashes and underscores/,
  },
  {
    name: "both --host-key and --scan",
    args: newHost("--scan"),
    err: /Cannot use --host-key with --scan: pass one of them/,
  },
  { name: "a bastion that is not there", args: newHost("--jump hop"), exit: 1, err: /hosts\.db01\.jump/ },
  { name: "a lifetime beyond the cap", args: newHost("--ttl 901"), err: /from 0 to 900/ },
  { name: "a switch that is neither", args: newHost("--sudo=maybe"), err: /--sudo=true or --sudo=false/ },
  {
    name: "a comma that would broaden a pattern",
    args: [...newHost("--policy-mode allowlist"), "--allow", "^echo a,b$"],
    err: /fix: repeat --allow/,
  },
  { name: "to edit a missing host", args: "host edit db01 --sudo", exit: 1, err: /Cannot find host "db01"/ },
  { name: "to remove a missing host", args: "host remove db01", exit: 1, err: /Cannot find host "db01"/ },
  { name: "to remove a bastion that is needed", args: "host rm web02", exit: 1, err: /hosts\.web01\.jump/ },
])(
  "host add and remove reject $name and write nothing",
  async ({ args, exit: expected = 2, err: pattern }) => {
    await using config = await withConfig(configWith());
    const { exit, out, err } = await config.ctl(...words(args));
    assert.deepEqual([exit, out], [expected, ""], err);
    assert.match(err, pattern);
    assert.equal(await config.read(), configWith());
  },
);

Deno.test("host add --dry-run with --reload and a URL writes nothing and sends no request", async () => {
  await using config = await withConfig(configWith());
  const { exit, out, err } = await config.ctl(...words(newHost("--dry-run --reload --url 127.0.0.1:1")));
  assert.deepEqual([exit, err, out.includes("nothing was written (--dry-run)")], [0, "", true]);
  assert.equal(await config.read(), configWith());
});

Deno.test("host edit NAME changes what host add --force --name changes, and host show prints it", async () => {
  await using edited = await withConfig(configWith());
  await using forced = await withConfig(configWith());
  assert.equal((await edited.ctl("hosts", "edit", "web01", "--group", "a,b")).exit, 0);
  assert.equal((await forced.ctl("host", "add", "--name", "web01", "--force", "--groups", "a,b")).exit, 0);
  assert.equal(await edited.read(), await forced.read());
  assert.match(
    (await edited.ctl("host", "show", "web01")).out,
    /^web01:\n {2}addr: [^]*groups:\n {4}- a\n {4}- b\n/,
  );
});

Deno.test("host remove removes the host and leaves the rest of the config unchanged", async () => {
  await using config = await withConfig(configWith());
  assert.equal((await config.ctl("host", "remove", "web01")).out.split("\n")[0], 'host "web01" removed');
  assert.equal((await config.read()).includes("web01"), false);
  assert.match(await config.read(), /\/\/ what the operator wrote[\s\S]*\/\/ in the cellar\n {4}"web02"/);
});

Deno.test("host add --dry-run prints the change as a diff and writes nothing", async () => {
  await using config = await withConfig(configWith());
  const { out } = await config.ctl("host", "add", "--name", "web01", "--force", "--user", "app", "--dry-run");
  assert.match(out, /^--- .*signer\.json\n\+\+\+ .*signer\.json\n@@ -\d+,7 \+\d+,7 @@\n/);
  assert.match(out, /^-.*"user": "deploy".*\n\+.*"user": "app"/m);
  assert.match(out, /nothing was written \(--dry-run\)\n$/);
  assert.equal(await config.read(), configWith());
  const json = JSON.parse((await config.ctl("host", "remove", "web01", "--dry-run", "--json")).out);
  assert.deepEqual([json.dry_run, json.diff.length > 5], [true, true]);
});

Deno.test("host add reports which broker config does not allow connections to the host", async () => {
  await using config = await withConfig(configWith());
  const broker = (networks: string[]) =>
    JSON.stringify({
      signer: { url: "https://127.0.0.1:1", client_cert: "c", client_key: "k", ca: "a" },
      audit_log: "l",
      audit_key: "k",
      networks,
    });
  await Deno.writeTextFile(join(config.folder, "config.json"), broker(["10.0.0.0/8:22"]));
  await Deno.writeTextFile(join(config.folder, "mcp.json"), broker(["192.168.0.0/16:22"]));
  const { out } = await config.ctl(...newHost());
  assert.match(
    out,
    /the broker of "mcp\.json" may not connect to 10\.0\.0\.9:22: add "10\.0\.0\.9:22" to "networks"/,
  );
  assert.doesNotMatch(out, /"config\.json"/);
});

Deno.test("host add fails and writes nothing while another process edits the config", async () => {
  await using config = await withConfig(configWith());
  {
    using _other = await tryLockFile(config.path);
    const { exit, err } = await config.ctl(...newHost());
    assert.equal(exit, 1);
    assert.match(err, /another process is editing it; nothing was written, try again/);
    assert.equal(await config.read(), configWith());
  }
  assert.equal((await config.ctl(...newHost())).exit, 0);
});
