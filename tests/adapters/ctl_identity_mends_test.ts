import assert from "node:assert/strict";
import { join } from "node:path";
import { tryLockFile } from "@gateway/shared/files";
import { createFolder, run } from "./ctl_fixture.ts";

/** A set-up of init, and `identity` in it. */
async function setUp() {
  const folder = await createFolder();
  const { exit, err } = await run(folder.path, "init");
  assert.deepEqual([exit, err], [0, ""]);
  return {
    ...folder,
    identity: (...args: string[]) => run(folder.path, "identity", ...args),
    read: (path: string) => Deno.readTextFile(join(folder.path, path)),
    write: (path: string, text: string) => Deno.writeTextFile(join(folder.path, path), text),
    at: (path: string) => join(folder.path, path),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

Deno.test.each([
  { kind: "operator", name: "olga", config: "signer.json" },
  { kind: "approver", name: "ann", config: "control-plane.json" },
])("identity add of an $kind that was ended before its place in the config goes on", async (row) => {
  await using it = await setUp();
  const before = await it.read(row.config);
  const add = () => it.identity("add", row.kind, row.name);
  assert.equal((await add()).exit, 0);
  const certificate = await it.read(`pki/${row.name}.crt`);
  await it.write(row.config, before);
  const again = await add();
  assert.deepEqual([again.exit, again.err], [0, ""]);
  assert.notEqual(await it.read(row.config), before);
  assert.equal(await it.read(`pki/${row.name}.crt`), certificate, "no second certificate");
  assert.match((await add()).err, /There is .*\.crt/);
});

Deno.test("identity add --out that was ended between its copies goes on, and takes no other's files", async () => {
  await using it = await setUp();
  await Deno.mkdir(it.at("usb"));
  const add = () => it.identity("add", "agent", "agent-8", "--out", it.at("usb"));
  assert.equal((await add()).exit, 0);
  const certificate = await it.read("usb/agent-8.crt");
  assert.match((await add()).err, /There is/);
  for (const lost of ["pki/agent-8.crt", "usb/agent-8.crt"]) {
    await Deno.remove(it.at(lost));
    const again = await add();
    assert.deepEqual([again.exit, again.err], [0, ""], lost);
    assert.equal(await it.read(lost), certificate);
  }
  await Deno.remove(it.at("pki/agent-8.crt"));
  await Deno.copyFile(it.at("pki/agent.crt"), it.at("usb/agent-8.crt"));
  const other = await add();
  assert.equal(other.exit, 1);
  assert.match(other.err, /no certificate of this CA for "agent-8" and its key/);
});

Deno.test("twenty who revoke at once: who is told that it is done is on the list, the others are told to try again", async () => {
  await using it = await setUp();
  const names = Array.from({ length: 20 }, (_, index) => `agent-${index}`);
  const results = await Promise.all(names.map((name) => it.identity("revoke", name, "--no-freeze")));
  const listed = (await it.read("pki/denied_callers")).split("\n");
  results.forEach(({ exit, out }, index) => {
    const name = names[index] ?? "";
    assert.equal(listed.includes(name), exit === 0, name);
    if (exit !== 0) {
      assert.match(out, /NOT on .*(?:being edited by somebody else|was changed meanwhile)[^]*try again/);
    }
  });
  assert.ok(results.some(({ exit }) => exit === 0));
});

Deno.test("identity revoke does the half that can be done, and says what to do about the other", async () => {
  await using it = await setUp();
  const unfrozen = await it.identity("revoke", "agent-1", "--url", "127.0.0.1:1");
  assert.equal(unfrozen.exit, 1);
  assert.match(unfrozen.out, /is on .*denied_callers[^]*NOT frozen: [^]*broker-ctl freeze --caller agent-1/);
  using _lock = await tryLockFile(it.at("pki/denied_callers"));
  const unlisted = await it.identity("revoke", "agent-2", "--no-freeze");
  assert.equal(unlisted.exit, 1);
  assert.match(unlisted.out, /NOT on .*broker-ctl identity revoke agent-2 succeeds/);
});

const COMMANDS = [
  ["add", "agent", "agent-7"],
  ["renew", "broker"],
  ["revoke", "agent", "--no-freeze"],
] as const;

Deno.test({
  name: "identity refuses to work as root where somebody else may write (as root)",
  ignore: Deno.uid() !== 0,
  async fn() {
    await using it = await setUp();
    const state = async () => [
      await Array.fromAsync(Deno.readDir(it.at("pki")), ({ name }) => name),
      await it.read("pki/broker.crt"),
      await it.read("pki/denied_callers"),
    ];
    const before = await state();
    const spoil: readonly (readonly [() => Promise<void>, () => Promise<void>])[] = [
      [() => Deno.chown(it.at("pki"), 1234, 1234), () => Deno.chown(it.at("pki"), 0, 0)],
      [() => Deno.chmod(it.at("pki"), 0o777), () => Deno.chmod(it.at("pki"), 0o700)],
      [() => Deno.chown(it.path, 1234, 1234), () => Deno.chown(it.path, 0, 0)],
    ];
    for (const [worse, better] of spoil) {
      await worse();
      for (const args of COMMANDS) {
        const { exit, err } = await it.identity(...args);
        assert.equal(exit, 1, args.join(" "));
        assert.match(err, /Cannot work as root with .* is not root's alone/);
      }
      await better();
    }
    await Deno.chown(it.at("pki/mtls_ca.key"), 1234, 1234);
    assert.match((await it.identity("add", "agent", "agent-7")).err, /mtls_ca\.key" is not root's alone/);
    await Deno.chown(it.at("pki/mtls_ca.key"), 0, 0);
    assert.deepEqual(await state(), before);
    assert.equal((await it.identity("add", "agent", "agent-7")).exit, 0);
  },
});

Deno.test("identity --pki takes no other folder from the config", async () => {
  await using it = await setUp();
  await Deno.mkdir(it.at("other"));
  for (const args of [...COMMANDS, ["list"]]) {
    const { exit, err } = await it.identity(...args, "--pki", it.at("other"));
    assert.equal(exit, 1, args.join(" "));
    assert.match(err, /has its client_ca in ".*pki", not in ".*other" \(--pki\)/);
  }
  assert.equal((await it.identity("list", "--pki", "pki")).exit, 0);
});
