import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import { loadConfig } from "@gateway/shared/config";
import { type Clock, systemClock, systemElapsed, systemRandom } from "@gateway/shared/clock";
import { startSigner } from "../../signer/serve.ts";
import { freePort } from "../stage/free_port.ts";
import { editConfig } from "../stage/stage.ts";
import { createFolder, run } from "./ctl_fixture.ts";
import { join } from "node:path";
import { editPath } from "@gateway/signer/config";
import { SET_UP_ENTRIES } from "../../ctl/setup/layout.ts";
import manifest from "../../deno.json" with { type: "json" };
import { openConfigFile } from "../../signer/config/snapshot.ts";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { encodeOpensshPrivateKey } from "@gateway/shared/ssh";
import { FakeClock, SAMPLE_HOST_KEY } from "@gateway/shared/testing";

const schema = z.strictObject({ listen: z.string() });

async function withFile<T>(bytes: Uint8Array, use: (path: string) => Promise<T>): Promise<T> {
  const path = await Deno.makeTempFile({ suffix: ".json" });
  try {
    await Deno.writeFile(path, bytes);
    return await use(path);
  } finally {
    await Deno.remove(path);
  }
}

const utf8 = (text: string) => new TextEncoder().encode(text);

Deno.test("loadConfig() reads a file", async () => {
  await withFile(utf8('// note\n{ "listen": "ä:1" }\n'), async (path) => {
    assert.equal((await loadConfig({ path, what: "signer config", schema })).listen, "ä:1");
  });
});

Deno.test.each([
  {
    name: "bytes that are not UTF-8",
    bytes: Uint8Array.of(0x7b, 0xff, 0x7d),
    problem: "the file is not valid UTF-8",
  },
  {
    name: "UTF-16",
    bytes: Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0),
    problem: "the file is not valid UTF-8",
  },
  {
    name: "a byte order mark",
    bytes: Uint8Array.of(0xef, 0xbb, 0xbf, ...utf8('{ "listen": ":1" }')),
    problem: "the file starts with a byte order mark; save it without",
  },
  { name: "an empty file", bytes: new Uint8Array(), problem: "the file is empty" },
  { name: "a wrong key", bytes: utf8('{ "listen": ":1", "x": 1 }'), problem: 'unknown key "x"' },
])("loadConfig() rejects $name and reports the path", async ({ bytes, problem }) => {
  await withFile(bytes, async (path) => {
    await assert.rejects(loadConfig({ path, what: "signer config", schema }), (error) => {
      assert.ok(error instanceof AppError);
      assert.equal(error.code, "invalid_config");
      assert.equal(error.message, `Cannot load signer config ${JSON.stringify(path)}: ${problem}`);
      return true;
    });
  });
});

Deno.test.each([
  { name: "a missing file", path: "/nonexistent/signer.json", problem: "no such file" },
  { name: "a directory", path: "/tmp", problem: "it is a directory, not a file" },
])("loadConfig() rejects $name", async ({ path, problem }) => {
  await assert.rejects(
    loadConfig({ path, what: "signer config", schema }),
    { message: `Cannot load signer config "${path}": ${problem}` },
  );
});

const RELOAD_SECONDS = 7;

/** The machine's clock. A test ends the pause between two checks of the config. */
class LookClock implements Clock {
  #pauseBegins = Promise.withResolvers<void>();
  #pauseEnds = Promise.withResolvers<void>();

  now(): number {
    return systemClock.now();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms !== RELOAD_SECONDS * 1000) return await systemClock.sleep(ms, signal);
    const pause = this.#pauseEnds = Promise.withResolvers<void>();
    signal?.addEventListener("abort", () => pause.reject(signal.reason), { once: true });
    this.#pauseBegins.resolve();
    await pause.promise;
  }

  /** Triggers a check of the config and resolves when its effects are complete. */
  async look(): Promise<void> {
    this.#pauseBegins = Promise.withResolvers();
    this.#pauseEnds.resolve();
    await this.#pauseBegins.promise;
  }
}

/** A signer that checks its config on demand. `onStart` runs between the first read and the first pause. */
async function startWatching(folder: string, onStart: (configPath: string) => void) {
  const at = () => `127.0.0.1:${freePort()}`;
  const result = await run(
    folder,
    "init",
    "--dir=.",
    "--direct",
    "--listen-signer",
    at(),
    "--monitor-signer",
    at(),
  );
  assert.equal(result.exit, 0, result.err);
  const configPath = `${folder}/signer.json`;
  await editConfig(configPath, [{ path: ["auto_reload_seconds"], value: RELOAD_SECONDS }]);
  const clock = new LookClock();
  const messages: string[] = [];
  let isStarting = true;
  const note = (message: string) => {
    messages.push(message);
    // The first log line describes the config that was read.
    if (isStarting) onStart(configPath);
    isStarting = false;
  };
  const signer = await startSigner({
    configPath,
    clock,
    elapsed: systemElapsed,
    random: systemRandom,
    readHostname: () => "signer",
    readEnv: () => undefined,
    fetch,
    logger: { info: note, warn: note, error: note },
  });
  return { signer, clock, messages, configPath };
}

const longer = (text: string) => text.replace('"^uptime$"', '"^uptime$", "^id$"');

Deno.test("a config that changes while the signer starts is loaded at the first poll", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages } = await startWatching(
    folder.path,
    (path) => Deno.writeTextFileSync(path, longer(Deno.readTextFileSync(path))),
  );
  try {
    await clock.look();
    assert.ok(messages.includes("config reloaded"));
    assert.match(JSON.stringify(signer.state.current.config.command_policies), /\^id\$/);
  } finally {
    await signer.close();
  }
});

Deno.test("an unchanged config is not reloaded, and a replacement with the same modification time is", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages, configPath } = await startWatching(folder.path, () => {});
  const isReloaded = () => messages.includes("config reloaded");
  try {
    await clock.look();
    await clock.look();
    assert.equal(isReloaded(), false);
    const { mtime } = await Deno.stat(configPath);
    const next = `${configPath}.restored`;
    await Deno.writeTextFile(next, longer(await Deno.readTextFile(configPath)));
    await Deno.utime(next, mtime ?? 0, mtime ?? 0);
    await Deno.rename(next, configPath);
    await clock.look();
    assert.ok(isReloaded());
  } finally {
    await signer.close();
  }
});

Deno.test("the signer keeps running while its config is missing, and loads the config when it returns", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages, configPath } = await startWatching(folder.path, () => {});
  try {
    await Deno.rename(configPath, `${configPath}.away`);
    await clock.look();
    assert.ok(messages.includes("config file not reloaded"));
    await Deno.rename(`${configPath}.away`, configPath);
    await clock.look();
    assert.ok(messages.includes("config reloaded"));
  } finally {
    await signer.close();
  }
});

const inRepository = (name: string) => Deno.readTextFile(new URL(`../../${name}`, import.meta.url));

Deno.test("replacing a config does not write through a symlink at the path of the temporary file (C4)", async () => {
  await using folder = await createFolder();
  const [config, victim] = [join(folder.path, "signer.json"), join(folder.path, "victim")];
  await Deno.writeTextFile(config, "old", { mode: 0o640 });
  await Deno.writeTextFile(victim, "precious", { mode: 0o644 });
  await Deno.symlink(victim, editPath(config));
  const file = openConfigFile(config, {} as never);
  assert.equal(await file.replace("old", "new"), true);
  assert.equal(await Deno.readTextFile(victim), "precious");
  assert.equal(await Deno.readTextFile(config), "new");
  const { isSymlink, mode } = await Deno.lstat(config);
  assert.deepEqual([isSymlink, (mode ?? 0) & 0o777], [false, 0o640]);
  assert.deepEqual([...Deno.readDirSync(folder.path)].map(({ name }) => name).sort(), [
    "signer.json",
    "victim",
  ]);
});

Deno.test(".gitignore contains every config and key of an installation in the repository (C21)", async () => {
  const ignored = (await inRepository(".gitignore")).split("\n").map((line) => line.replace(/\/$/, ""));
  assert.deepEqual(SET_UP_ENTRIES.filter((entry) => !ignored.includes(`/${entry}`)), []);
});

Deno.test("deno.json pins every package to an exact version, and deno.lock has a digest for each (R10)", async () => {
  const lock = JSON.parse(await inRepository("deno.lock"));
  for (const specifier of Object.values(manifest.imports)) {
    assert.match(specifier, /^npm:\/?(?:@[a-z-]+\/)?[a-z0-9.-]+@\d+\.\d+\.\d+\/?$/);
    assert.ok(specifier.replaceAll(/(?<=^npm:)\/|\/$/g, "") in lock.specifiers, specifier);
  }
  const packages: Record<string, { readonly integrity?: string }> = lock.npm;
  for (const [name, { integrity }] of Object.entries(packages)) {
    assert.match(integrity ?? "", /^sha512-/, name);
  }
});

const seedOf = (length: number) => new Uint8Array(length).fill(7);

Deno.test.each<{ name: string; seed: Uint8Array | undefined; problem: RegExp | undefined }>([
  { name: "accepts a seed of 32 bytes", seed: seedOf(32), problem: undefined },
  { name: "rejects a shorter file", seed: seedOf(31), problem: /envelope_key ".*": .* 31 bytes/ },
  {
    name: "rejects a file with one byte more, such as a newline",
    seed: seedOf(33),
    problem: /envelope_key ".*": .* 33 bytes/,
  },
  { name: "rejects an empty file", seed: seedOf(0), problem: /envelope_key ".*": .* 0 bytes/ },
  {
    name: "rejects a path that does not exist",
    seed: undefined,
    problem: /envelope_key ".*": no such file/,
  },
])("the signer's envelope_key $name", async ({ seed, problem }) => {
  await using dir = await createFolder();
  await Deno.writeTextFile(`${dir.path}/ca`, encodeOpensshPrivateKey(seedOf(32), "ca"), { mode: 0o600 });
  if (seed !== undefined) await Deno.writeFile(`${dir.path}/seed`, seed);
  const text = JSON.stringify({
    server_cert: "c",
    server_key: "k",
    client_ca: "a",
    ca_key: `${dir.path}/ca`,
    envelope_key: `${dir.path}/seed`,
    audit_log: "log/audit.log",
    audit_key: "seed",
  });
  const file = openConfigFile("signer.json", { clock: new FakeClock(), fetch, readEnv: () => undefined });
  if (problem !== undefined) return await assert.rejects(file.compile(text), problem);
  const { envelopeKey } = await file.compile(text);
  assert.deepEqual(envelopeKey?.publicKey, createEnvelopeKey(seedOf(32)).publicKey);
});

const CASES = (expect: string) => JSON.stringify({ cases: [{ host: "web01", command: "id", expect }] });
const WEB01 = {
  addr: "10.0.0.1:22",
  user: "a",
  host_key: SAMPLE_HOST_KEY,
  principal: "host:web01",
  groups: ["local"],
};
const ALL = { mode: "allowlist", allow: ["^id$"] };

Deno.test.each<{ name: string; tests?: string; source?: "database"; hosts?: "database"; problem?: RegExp }>([
  { name: "accepts the expected decisions", tests: CASES("allow") },
  {
    name: "rejects another decision",
    tests: CASES("deny"),
    problem: /1 of 1 cases of ".*" fail\n {2}web01: id → deny/,
  },
  { name: "rejects a missing file", problem: /Cannot load policy tests ".*": no such file/ },
  { name: "rejects a malformed file", tests: "{", problem: /Cannot load policy tests/ },
  { name: "rejects a file without cases", tests: '{ "cases": [] }', problem: /Cannot load policy tests/ },
  { name: "waits for the hosts of the database", tests: CASES("deny"), source: "database" },
  {
    name: "tests the hosts of the database",
    tests: CASES("deny"),
    source: "database",
    hosts: "database",
    problem: /fail/,
  },
])("the signer's policy_tests $name", async ({ tests, source, hosts, problem }) => {
  await using dir = await createFolder();
  await Deno.writeTextFile(`${dir.path}/ca`, encodeOpensshPrivateKey(seedOf(32), "ca"), { mode: 0o600 });
  if (tests !== undefined) await Deno.writeTextFile(`${dir.path}/tests`, tests);
  const text = JSON.stringify({
    ...{ server_cert: "c", server_key: "k", client_ca: "a", audit_log: "log/audit.log", audit_key: "seed" },
    ...{ ca_key: `${dir.path}/ca`, policy_tests: `${dir.path}/tests` },
    hosts: { web01: { ...WEB01, command_policy: ALL } },
    ...source && { policy_source: source, state_db: "postgres://gateway@127.0.0.1/gateway" },
  });
  const file = openConfigFile("signer.json", { clock: new FakeClock(), fetch, readEnv: () => undefined });
  const previous = problem === undefined ? await file.compile(text) : undefined;
  const reloaded = file.compile(text, previous, hosts);
  if (problem === undefined) await reloaded;
  else await assert.rejects(reloaded, { code: "invalid_config", message: problem });
});

Deno.test("a change that contradicts policy_tests is not made by reload, policy add or host edit", async () => {
  await using folder = await createFolder();
  const { signer, clock, messages, configPath } = await startWatching(folder.path, () => {});
  const tests = `${folder.path}/policy_tests.jsonc`;
  const ctl = (...args: string[]) => run(folder.path, ...args, "--client-config", "broker-ctl.json");
  const add = (pattern: string) => ctl("policy", "add", "--host", "web01", "--allow", pattern);
  const contradiction =
    /1 of 1 cases .* fail\n {2}web01: id → deny: expected deny, but the decision is allow by allow:\^id\$/;
  try {
    await Deno.writeTextFile(tests, CASES("deny"));
    await editConfig(configPath, [
      { path: ["hosts"], value: { web01: WEB01 } },
      { path: ["policy_tests"], value: tests },
    ]);
    await clock.look();
    assert.ok(messages.includes("config reloaded"));
    assert.equal((await add("^who$")).exit, 0);
    const before = await Deno.readTextFile(configPath);
    for (
      const { exit, err } of [
        await add("^id$"),
        await run(folder.path, "host", "edit", "web01", "--allow", "^id$"),
      ]
    ) {
      assert.equal(exit, 1);
      assert.match(err, contradiction);
    }
    assert.equal(await Deno.readTextFile(configPath), before);
    await Deno.writeTextFile(configPath, longer(before));
    assert.match((await ctl("reload")).err, contradiction);
    await Deno.writeTextFile(configPath, before);
    await Deno.remove(tests);
    assert.match((await ctl("reload")).err, /no such file/);
    assert.deepEqual(signer.state.current.config.hosts["web01"]?.command_policy?.allow, ["^who$"]);
    assert.doesNotMatch(JSON.stringify(signer.state.current.config.command_policies), /\^id\$/);
    const { out } = await run(folder.path, "doctor", "--security");
    assert.match(
      out,
      /\[FAIL\] .*the service rejects this config: Cannot load policy tests[^]*fix: broker-ctl policy test --config/,
    );
  } finally {
    await signer.close();
  }
});
