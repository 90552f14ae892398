import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { findHostKey, listAliases } from "../../ctl/setup/import_ssh_config.ts";
import { createFolder, run } from "./ctl_fixture.ts";

const ED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";

function hashed(name: string): string {
  const salt = new Uint8Array(20).fill(3);
  return `|1|${salt.toBase64()}|${createHmac("sha1", salt).update(name).digest("base64")}`;
}

Deno.test.each<{ name: string; text: string; lookUp?: string; key: string | undefined }>([
  { name: "a name", text: `web01,10.0.0.5 ${ED} a comment`, key: ED },
  { name: "a name beside another port", text: `[web01]:2222 ${ED}`, lookUp: "[web01]:2222", key: ED },
  { name: "a hashed name", text: `${hashed("web01")} ${ED}`, key: ED },
  { name: "a pattern", text: `*01,!web02 ${ED}`, key: ED },
  { name: "no name that a pattern takes out", text: `*,!web01 ${ED}`, key: undefined },
  { name: "no other name", text: `web011 ${ED}\n${hashed("web02")} ${ED}`, key: undefined },
  { name: "no key of an authority", text: `@cert-authority web01 ${ED}`, key: undefined },
  {
    name: "no key that is revoked, wherever that stands",
    text: `web01 ${ED}\nweb01 ${OTHER}\n@revoked * ${ED}`,
    key: OTHER,
  },
  {
    name: "no comment, and nothing that is no key",
    text: `# web01 ${ED}\nweb01 ssh-ed25519 AAAA\nweb01 junk`,
    key: undefined,
  },
])("findHostKey() finds the key of $name", ({ text, lookUp = "web01", key }) => {
  assert.equal(findHostKey(["", text], lookUp), key);
});

Deno.test("listAliases() takes concrete names alone, and none that looks like an option", () => {
  const text =
    'Host web01 *.example !x\n  HostName a\nhost=db01\nHost -oProxyCommand=x "q01"\n#Host no\nHostname y\nHost web01';
  assert.deepEqual(listAliases(text), ["web01", "db01", "q01"]);
});

Deno.test("init --import-ssh-config takes the hosts whose keys ssh knows, and says why not the others", async () => {
  await using folder = await createFolder();
  const known = join(folder.path, "known_hosts");
  await Deno.writeTextFile(known, `[10.0.0.5]:2222 ${ED}\n${hashed("10.0.0.6")} ${OTHER}\n10.0.0.9 ${ED}\n`);
  await Deno.writeTextFile(
    join(folder.path, "config"),
    `Host Web_01
  HostName 10.0.0.5
  Port 2222
  User deploy
Host db01 given
  HostName 10.0.0.6
  User dba
Host unknown
  HostName 10.0.0.7
Host behind
  HostName 10.0.0.9
  ProxyJump db01
Host *
  User nobody
  UserKnownHostsFile ${known}
  GlobalKnownHostsFile /dev/null
`,
  );
  const given = `given=10.9.9.9:22,user=ann,key=${ED}`;
  const { exit, out, err } = await run(
    folder.path,
    ...[
      "init",
      "--json",
      "--dir",
      join(folder.path, "gateway"),
      "--host",
      given,
      "--import-ssh-config",
      "config",
    ],
  );
  assert.equal(exit, 0, err);
  const json = JSON.parse(out);
  assert.deepEqual(json.hosts, ["given", "web_01", "db01"]);
  assert.match(
    json.left_out.join("\n"),
    /^unknown .*known_hosts: .*--scan\nbehind .*through "db01": .*--jump$/,
  );
  const listed = JSON.parse(
    (await run(folder.path, "host", "list", "--json", "--config", json.signer_config)).out,
  );
  assert.deepEqual([listed.web_01.addr, listed.web_01.user, listed.web_01.host_key], [
    "10.0.0.5:2222",
    "deploy",
    ED,
  ]);
  assert.deepEqual([listed.db01.addr, listed.db01.user, listed.db01.host_key], ["10.0.0.6:22", "dba", OTHER]);
  assert.equal(listed.given.addr, "10.9.9.9:22");
});

Deno.test("init --import-ssh-config makes nothing where the config is not there, or there is no HOME", async () => {
  await using folder = await createFolder();
  const init = (...more: string[]) => run(folder.path, "init", "--dir", join(folder.path, "g"), ...more);
  assert.match((await init("--import-ssh-config", "nothing")).err, /Cannot read ssh config .*: no such file/);
  assert.match((await init("--import-ssh-config")).err, /There is no HOME/);
  await assert.rejects(Deno.stat(join(folder.path, "g")));
});
