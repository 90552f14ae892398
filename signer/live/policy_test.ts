import assert from "node:assert/strict";
import type { ConfigFile } from "../config/config_file.ts";
import { PolicySource, readDocument, writeDocument } from "./policy.ts";
import { digestOf } from "./state/postgres.ts";
import type { StoredPolicy } from "./state/postgres.ts";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

const { hosts: HOSTS, ...REST } = CONFIG;
const SETTINGS = { ...REST, state_db: "postgres://signer@127.0.0.1/gateway", policy_source: "database" };
const DOCUMENT = writeDocument(HOSTS);
const LOGGER = { warn() {} };

/** A config file, and how often it was compiled. */
function fileOf(settings: Readonly<Record<string, unknown>> = SETTINGS) {
  const file = { text: JSON.stringify(settings), compiled: 0 };
  const configFile: ConfigFile = {
    read: () => Promise.resolve(file.text),
    parse: (text) => Promise.resolve(snapshotOf(JSON.parse(text)).config),
    compile(text) {
      file.compiled++;
      return Promise.try(() => snapshotOf(JSON.parse(text)));
    },
    replace: () => Promise.resolve(false),
  };
  return { file, configFile };
}

function storedAs(version: number, document = DOCUMENT): StoredPolicy {
  return { version, sha256: digestOf(document), document };
}

Deno.test("PolicySource decides by nothing but the newest version in force", async () => {
  const { configFile } = fileOf();
  const source = new PolicySource({ from: "database", configFile, logger: LOGGER });
  const empty = snapshotOf(SETTINGS);
  assert.match(source.problemOf(empty) ?? "", /no hosts yet: broker-ctl policy import/);
  assert.throws(() => source.requireCurrent(empty), { code: "state_stale" });
  assert.equal(source.learn(storedAs(1)), true);
  assert.equal(source.learn(storedAs(1)), false);
  assert.equal(source.problemOf(empty), "version 1 of the policy is not in force yet");
  const first = await source.load(empty);
  assert.deepEqual([...first.policy.hosts.keys()], Object.keys(HOSTS));
  source.requireCurrent(first);
  // Others have lost it, and made another of its number.
  assert.equal(source.learn(storedAs(1, writeDocument({}))), true);
  assert.throws(() => source.requireCurrent(first), { code: "state_stale" });
  source.requireCurrent(await source.load(first));
});

Deno.test("PolicySource compiles a change once, unless the file has changed meanwhile", async () => {
  const { file, configFile } = fileOf();
  const source = new PolicySource({ from: "database", configFile, logger: LOGGER });
  const prepared = await source.prepare(DOCUMENT, snapshotOf(SETTINGS));
  source.learn(storedAs(1));
  assert.equal((await source.load(prepared)).policy, prepared.policy);
  assert.equal(file.compiled, 1);
  // A reload reads everything anew.
  await source.load(prepared);
  assert.equal(file.compiled, 2);
  await source.prepare(DOCUMENT, prepared);
  file.text = JSON.stringify({ ...SETTINGS, reload_callers: [] });
  assert.equal((await source.load(prepared)).reloadCallers.size, 0);
  assert.equal(file.compiled, 4);
});

Deno.test.each([
  {
    name: "is no JSON",
    document: "{",
    says: /version 3 .* can't be used: not a JSON object with "hosts" alone/,
  },
  { name: "is more than hosts", document: '{"hosts":{},"reload_callers":["x"]}', says: /"hosts" alone/ },
  { name: "was altered", document: "{}", sha256: "00", says: /it was changed by hand/ },
])("PolicySource names a version that $name, and decides by none", async ({ document, sha256, says }) => {
  const source = new PolicySource({ from: "database", configFile: fileOf().configFile, logger: LOGGER });
  source.learn(storedAs(2));
  const former = await source.load(snapshotOf(SETTINGS));
  source.learn({ ...storedAs(3, document), ...(sha256 !== undefined && { sha256 }) });
  await assert.rejects(source.load(former), { code: "invalid_config", message: says });
  assert.match(source.problemOf(former) ?? "", says);
  assert.equal(source.isWaiting(former), false, "another attempt mends nothing");
  assert.throws(() => source.requireCurrent(former), { code: "state_stale" });
});

Deno.test("PolicySource refuses hosts in the file, and another source than at the start", async () => {
  const source = new PolicySource({
    from: "database",
    configFile: fileOf({ ...SETTINGS, hosts: HOSTS }).configFile,
    logger: LOGGER,
  });
  source.learn(storedAs(1));
  await assert.rejects(source.prepare(DOCUMENT, snapshotOf(SETTINGS)), { message: /the file has some/ });
  const back = new PolicySource({
    from: "database",
    configFile: fileOf({ ...SETTINGS, policy_source: "file" }).configFile,
    logger: LOGGER,
  });
  back.learn(storedAs(1));
  await assert.rejects(back.load(snapshotOf(SETTINGS)), { message: /policy_source is read at start only/ });
});

Deno.test("a signer with its hosts in its file refuses from the second version on", () => {
  const source = new PolicySource({ from: "file", configFile: fileOf().configFile, logger: LOGGER });
  const snapshot = snapshotOf(CONFIG);
  source.learn(storedAs(1));
  source.requireCurrent(snapshot);
  source.learn(storedAs(2));
  assert.throws(() => source.requireCurrent(snapshot), { code: "state_stale" });
});

Deno.test("a document is read as it was written", () => {
  assert.deepEqual(readDocument(DOCUMENT), HOSTS);
});
