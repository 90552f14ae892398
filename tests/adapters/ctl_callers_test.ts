import assert from "node:assert/strict";
import { join } from "node:path";
import { createFolder, run, withConfig } from "./ctl_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";

const CALLERS = `{
    // the one of the day shift
    "broker-local": { "allowed_groups": ["local"], "only_via": ["cp"], "require_verified_end_user": true },
    "agent-7": { "allowed_groups": ["web", "db"] }
  }`;
const KEYS = `{
    // in the safe
    "prod": { "type": "akv", "vault_url": "https://v.example", "key_name": "ca", "key_version": "a1" },
    "dev": { "type": "pem", "path": "dev_ca" }
  }`;

function configWith(callers = CALLERS, keys = KEYS): string {
  return `{
  "server_cert": "x", "server_key": "x", "client_ca": "x", "ca_key": "lab_ca", "audit_log": "x", "audit_key": "x",
  "trusted_forwarders": ["cp"],
  "callers": ${callers},
  "ca_keys": ${keys}
}
`;
}

const VERBS = "--vault-url https://w.example --key-name k";

Deno.test.each<
  { args: string; says: string; callers?: (text: string) => string; keys?: (text: string) => string }
>([
  {
    args: "callers add --name agent-8 --groups web,db",
    says: 'caller "agent-8" added (groups=web,db)',
    callers: (text) =>
      text.replace(/ }\n {2}}$/, ' },\n    "agent-8": { "allowed_groups": ["web", "db"] }\n  }'),
  },
  {
    args: "callers add --name agent-8 --groups ",
    says: 'caller "agent-8" added (groups=)',
    callers: (text) => text.replace(/ }\n {2}}$/, ' },\n    "agent-8": { "allowed_groups": [] }\n  }'),
  },
  {
    args: "callers add --name broker-local --groups edge --force",
    says: 'caller "broker-local" updated (groups=edge)',
    callers: (text) => text.replace('["local"]', '["edge"]'),
  },
  {
    args: "callers add --name broker-2 --groups web --only-via cp",
    says: 'caller "broker-2" added (groups=web)',
    callers: (text) =>
      text.replace(
        / }\n {2}}$/,
        ' },\n    "broker-2": { "allowed_groups": ["web"], "only_via": ["cp"] }\n  }',
      ),
  },
  {
    args: "callers add --name broker-local --groups local --only-via  --force",
    says: 'caller "broker-local" updated (groups=local)',
    callers: (text) => text.replace(' "only_via": ["cp"],', ""),
  },
  {
    args: "callers remove agent-7",
    says: 'caller "agent-7" removed',
    callers: (text) => text.replace(/,\n {4}"agent-7".*/, ""),
  },
  {
    args: "ca-keys add --name prod --force --key-name next",
    says: 'ca-key "prod" updated (type=akv)',
    keys: (text) => text.replace('"key_name": "ca"', '"key_name": "next"'),
  },
  {
    args: "ca-keys add --name dev --force --type agent --public-key-path dev.pub --socket /s",
    says: 'ca-key "dev" updated (type=agent)',
    keys: (text) =>
      text.replace(
        /"dev": {.*}/,
        '"dev": { "type": "agent", "public_key_path": "dev.pub", "socket": "/s" }',
      ),
  },
  {
    args: "ca-keys rm dev",
    says: 'ca-key "dev" removed',
    keys: (text) => text.replace(/,\n {4}"dev".*/, ""),
  },
])("broker-ctl $args changes only the named entry", async ({ args, says, callers, keys }) => {
  await using config = await withConfig(configWith());
  const { exit, out, err } = await config.ctl(args);
  assert.deepEqual([exit, err, out.split("\n")[0]], [0, "", says]);
  assert.equal(await config.read(), configWith(callers?.(CALLERS), keys?.(KEYS)));
});

Deno.test("ca-keys add prints which working directory a relative path refers to", async () => {
  await using config = await withConfig(configWith());
  const add = async (name: string, path: string) =>
    (await config.ctl("ca-keys", "add", "--name", name, "--type", "pem", "--path", path)).out;
  assert.match(
    await add("near", "pki/ca"),
    /"pki\/ca" is relative to the working directory of the signer/,
  );
  assert.doesNotMatch(await add("far", "/etc/ca"), /looked for/);
});

Deno.test.each<{ name: string; args: string; exit?: number; err: RegExp }>([
  {
    name: "a caller that exists",
    args: "callers add --name agent-7 --groups x",
    exit: 1,
    err: /it exists\nfix: pass --force/,
  },
  { name: "a caller without a word about groups", args: "callers add --name agent-9", err: /--groups/ },
  {
    name: "the removal of an unknown caller",
    args: "callers rm x",
    exit: 1,
    err: /Cannot find caller "x"/,
  },
  {
    name: "a CA key that exists",
    args: `ca-keys add --name prod --type akv ${VERBS}`,
    exit: 1,
    err: /it exists\nfix: pass --force/,
  },
  { name: "a new key without a type", args: "ca-keys add --name a --path k", err: /needs --type/ },
  {
    name: "a pem key without a path",
    args: "ca-keys add --name a --type pem",
    exit: 1,
    err: /path.*is missing/,
  },
  {
    name: "an akv key without a name",
    args: "ca-keys add --name a --type akv --vault-url https://v",
    exit: 1,
    err: /key_name.*is missing/,
  },
  {
    name: "a new agent key without a socket",
    args: "ca-keys add --name a --type agent --public-key-path a.pub",
    err: /needs --socket\n.*yours is "\$SSH_AUTH_SOCK"/,
  },
  {
    name: "a pem key changed to type agent without a socket",
    args: "ca-keys add --name dev --force --type agent --public-key-path a.pub",
    err: /needs --socket/,
  },
  {
    name: "a field of another key type",
    args: "ca-keys add --name dev --force --socket /s",
    exit: 1,
    err: /belongs to ca_keys of type agent/,
  },
  {
    name: "the removal of an unknown key",
    args: "ca-keys remove x",
    exit: 1,
    err: /Cannot find CA key "x"/,
  },
])(
  "callers and ca-keys reject $name and write nothing",
  async ({ args, exit: expected = 2, err: pattern }) => {
    await using config = await withConfig(configWith());
    const { exit, out, err } = await config.ctl(args);
    assert.deepEqual([exit, out], [expected, ""], err);
    assert.match(err, pattern);
    assert.equal(await config.read(), configWith());
  },
);

Deno.test("callers remove rejects the last caller, because then every caller sees every host", async () => {
  const text = configWith('{ "a": {} }');
  await using config = await withConfig(text);
  const { exit, err } = await config.ctl("callers", "remove", "a");
  assert.equal(exit, 1);
  assert.match(err, /it is the last one, and without callers every client certificate can use every host/);
  assert.equal(await config.read(), text);
});

Deno.test("callers add warns that the first caller hides all hosts from all others", async () => {
  await using config = await withConfig(configWith("{}"));
  const { out } = await config.ctl("callers", "add", "--name", "a", "--groups", "web");
  assert.match(out, /This is the only caller: all other callers see no hosts/);
});

Deno.test("callers list and ca-keys list print a table", async () => {
  await using config = await withConfig(configWith());
  assert.equal(
    (await config.ctl("callers", "list")).out,
    "NAME          ALLOWED_GROUPS\nagent-7       web,db\nbroker-local  local\n",
  );
  assert.equal(
    (await config.ctl("ca-keys", "list")).out,
    "NAME  TYPE  DETAIL\ndev   pem   dev_ca\nprod  akv   https://v.example (key: ca)\nfor all other hosts: ca_key lab_ca\n",
  );
  await using empty = await withConfig(configWith("{}", "{}"));
  assert.equal((await empty.ctl("callers", "list")).out, "(no callers configured)\n");
  assert.match((await empty.ctl("ca-keys", "list")).out, /^\(no ca-keys configured\)\n/);
});

// An account that can write to the directory of configs must not be able to block root's commands.
Deno.test.each([
  { args: "host list --config taken", is: "a pipe" },
  { args: "host remove web --config taken", is: "a pipe" },
  { args: "callers list --config taken", is: "a pipe" },
  { args: "status --config taken", is: "a pipe" },
  { args: "doctor --config taken", is: "a pipe" },
  { args: "host list --config link", is: "a device" },
])("$args: reports a config path that is not a regular file without blocking", async ({ args, is }) => {
  await using folder = await createFolder();
  const made = await new Deno.Command("mkfifo", { args: [`${folder.path}/taken`] }).output();
  assert.equal(made.code, 0);
  await Deno.symlink("/dev/zero", `${folder.path}/link`);
  const { out, err, exit } = await run(folder.path, args);
  assert.match(out + err, new RegExp(`it is ${is}, not a file`));
  assert.notEqual(exit, 0);
});

Deno.test.each([
  { args: "doctor --json", says: /client_cert .*broker\.crt.* cannot be read: it is a pipe/ },
  { args: "identity list", says: /broker/ },
])("$args: a certificate that is a named pipe does not block the command", async ({ args, says }) => {
  await using folder = await createFolder();
  await run(folder.path, "init", "--dir=.");
  await Deno.remove(`${folder.path}/pki/broker.crt`);
  const made = await new Deno.Command("mkfifo", { args: [`${folder.path}/pki/broker.crt`] }).output();
  assert.equal(made.code, 0);
  const { out, err } = await run(folder.path, args);
  assert.match(out + err, says);
});

const MODULE = new URL("./host_adder.ts", import.meta.url).href;
const EMPTY = `{
  // what the operator wrote
  "server_cert": "x", "server_key": "x", "client_ca": "x", "ca_key": "x", "audit_log": "x", "audit_key": "x",
  "hosts": {}
}
`;

Deno.test("host add, run twice in parallel and killed, leaves a valid config with every confirmed host", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "signer.json");
  await Deno.writeTextFile(path, EMPTY);
  const told: string[] = [];
  for (const count of [3, 12]) {
    const adders = ["a", "b"].map((name) =>
      runUntilKilled({ module: MODULE, path: folder.path, args: [folder.path, `${name}${count}-`] }, count)
    );
    told.push(...(await Promise.all(adders)).flat());
    const listed = await run(folder.path, "host", "list", "--json");
    assert.equal(listed.exit, 0, listed.err);
    const hosts = Object.keys(JSON.parse(listed.out));
    assert.deepEqual(told.filter((name) => !hosts.includes(name)), []);
    assert.ok(
      hosts.length <= told.length + 2 * 2,
      "one that was not told is the last of one that was killed",
    );
  }
  assert.match(await Deno.readTextFile(path), /\/\/ what the operator wrote/);
});
