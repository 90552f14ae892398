import assert from "node:assert/strict";
import type { ConfigFile } from "../config/snapshot.ts";
import { PolicySource, readDocument, writeDocument } from "./policy.ts";
import { digestOf, type PolicyVersions, type StoredDocument, type StoredPolicy } from "./state/postgres.ts";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

const { hosts: HOSTS, ...REST } = CONFIG;
const SETTINGS = { ...REST, state_db: "postgres://signer@127.0.0.1/gateway", policy_source: "database" };
const DOCUMENT = writeDocument(HOSTS);
const LOGGER = { warn() {} };

/** A config file that counts how often it was compiled. */
function fileOf(settings: Readonly<Record<string, unknown>> = SETTINGS) {
  const file = { text: JSON.stringify(settings), compiled: 0, places: new Set<string | undefined>() };
  const configFile: ConfigFile = {
    read: () => Promise.resolve(file.text),
    parse: (text) => Promise.resolve(snapshotOf(JSON.parse(text)).config),
    compile(text, _previous, place) {
      file.compiled++;
      file.places.add(place);
      return Promise.try(() => snapshotOf(JSON.parse(text)));
    },
    replace: () => Promise.resolve(false),
  };
  return { file, configFile };
}

const sourceOf = (configFile: ConfigFile, from: "database" | "file" = "database") =>
  new PolicySource({ from, configFile, logger: LOGGER });

function storedAs(version: number, document = DOCUMENT): StoredPolicy {
  return { version, sha256: digestOf(document), document };
}

Deno.test("PolicySource allows decisions only with the newest version in force", async () => {
  const { configFile } = fileOf();
  const source = sourceOf(configFile);
  const empty = snapshotOf(SETTINGS);
  assert.match(source.problemOf(empty) ?? "", /no hosts yet: broker-ctl policy import/);
  assert.throws(() => source.requireCurrent(empty), { code: "state_stale" });
  assert.equal(source.learn(storedAs(1)), true);
  assert.equal(source.learn(storedAs(1)), false);
  assert.equal(source.problemOf(empty), "version 1 of the policy is not in force yet");
  const first = await source.load(empty);
  assert.deepEqual([...first.policy.hosts.keys()], Object.keys(HOSTS));
  source.requireCurrent(first);
  // Other signers have lost this version and created another one with the same number.
  assert.equal(source.learn(storedAs(1, writeDocument({}))), true);
  assert.throws(() => source.requireCurrent(first), { code: "state_stale" });
  source.requireCurrent(await source.load(first));
});

Deno.test("PolicySource compiles a change once unless the file changed meanwhile", async () => {
  const { file, configFile } = fileOf();
  const source = sourceOf(configFile);
  const prepared = await source.prepare(DOCUMENT, snapshotOf(SETTINGS));
  source.learn(storedAs(1));
  assert.equal((await source.load(prepared)).policy, prepared.policy);
  assert.equal(file.compiled, 1);
  // A reload reads everything again.
  await source.load(prepared);
  assert.equal(file.compiled, 2);
  await source.prepare(DOCUMENT, prepared);
  file.text = JSON.stringify({ ...SETTINGS, reload_callers: [] });
  assert.equal((await source.load(prepared)).reloadCallers.size, 0);
  assert.equal(file.compiled, 4);
  // The hosts are complete, so that policy_tests applies.
  assert.deepEqual([...file.places], ["database"]);
});

Deno.test.each([
  ["is no JSON", "{", undefined, /version 3 .* can't be used: not a JSON object with "hosts" alone/],
  ["is more than hosts", '{"hosts":{},"reload_callers":["x"]}', undefined, /"hosts" alone/],
  ["was altered", "{}", "00", /it was changed manually/],
])("PolicySource reports a version that %s, and rejects decisions", async (_name, document, sha256, says) => {
  const source = sourceOf(fileOf().configFile);
  source.learn(storedAs(2));
  const former = await source.load(snapshotOf(SETTINGS));
  source.learn({ ...storedAs(3, document), ...(sha256 !== undefined && { sha256 }) });
  await assert.rejects(source.load(former), { code: "invalid_config", message: says });
  assert.match(source.problemOf(former) ?? "", says);
  assert.equal(source.isWaiting(former), false, "another attempt mends nothing");
  assert.throws(() => source.requireCurrent(former), { code: "state_stale" });
});

Deno.test("PolicySource rejects hosts in the file, and a changed policy_source after the start", async () => {
  const source = sourceOf(fileOf({ ...SETTINGS, hosts: HOSTS }).configFile);
  source.learn(storedAs(1));
  await assert.rejects(source.prepare(DOCUMENT, snapshotOf(SETTINGS)), { message: /must be empty/ });
  const back = sourceOf(fileOf({ ...SETTINGS, policy_source: "file" }).configFile);
  back.learn(storedAs(1));
  await assert.rejects(back.load(snapshotOf(SETTINGS)), { message: /policy_source is read at start only/ });
});

Deno.test("a signer with hosts in its file rejects decisions from version 2 of the shared policy on", () => {
  const source = sourceOf(fileOf().configFile, "file");
  const snapshot = snapshotOf(CONFIG);
  source.learn(storedAs(1));
  source.requireCurrent(snapshot);
  source.learn(storedAs(2));
  assert.throws(() => source.requireCurrent(snapshot), { code: "state_stale" });
});

Deno.test("readDocument() returns the hosts that were written", () => {
  assert.deepEqual(readDocument(DOCUMENT), HOSTS);
});

const OTHER = writeDocument({});

/** A signer that decides by version 1, and its announcements. */
async function createScene(from: "database" | "file" = "database") {
  const announced: string[] = [];
  const compiled: string[] = [];
  const compiling = { gate: Promise.resolve() };
  const policySource = new PolicySource({
    from,
    logger: LOGGER,
    versions: {
      announcePrepared: (sha256: string) => Promise.resolve(void announced.push(sha256)),
    } as PolicyVersions,
    configFile: {
      ...fileOf().configFile,
      async compile(text) {
        compiled.push(writeDocument(JSON.parse(text).hosts));
        await compiling.gate;
        return snapshotOf(JSON.parse(text));
      },
    },
  });
  policySource.learn(storedAs(1, OTHER));
  const current = from === "file" ? snapshotOf(CONFIG) : await policySource.load(snapshotOf(SETTINGS));
  compiled.length = 0;
  const preparation = {
    learn: (stored: StoredDocument | undefined) => policySource.learnProposal(stored, { current }),
    ended: () => policySource.prepared(),
  };
  return { preparation, policySource, current, announced, compiled, compiling };
}

const proposalOf = (document: string) => ({ sha256: digestOf(document), document });

Deno.test("a proposal is compiled while the previous version is in force, and is not compiled again", async () => {
  const { preparation, policySource, current, announced, compiled } = await createScene();
  preparation.learn(proposalOf(DOCUMENT));
  policySource.requireCurrent(current);
  assert.deepEqual(announced, [], "nothing is announced before it is compiled");
  await preparation.ended();
  policySource.requireCurrent(current);
  assert.deepEqual([announced, compiled], [[digestOf(DOCUMENT)], [DOCUMENT]]);
  // The version comes without its document, because the signer already has it.
  policySource.learn({ version: 2, sha256: digestOf(DOCUMENT) });
  assert.throws(() => policySource.requireCurrent(current), { code: "state_stale" });
  const next = await policySource.load(current);
  policySource.requireCurrent(next);
  assert.deepEqual([...next.policy.hosts.keys()], Object.keys(HOSTS));
  assert.equal(compiled.length, 1);
});

Deno.test("a version that arrives during its compilation waits for it and compiles only once", async () => {
  const { preparation, policySource, current, compiled, compiling } = await createScene();
  const { promise, resolve } = Promise.withResolvers<void>();
  compiling.gate = promise;
  preparation.learn(proposalOf(DOCUMENT));
  while (compiled.length === 0) await Promise.resolve();
  policySource.learn({ version: 2, sha256: digestOf(DOCUMENT) });
  const loading = policySource.load(current);
  resolve();
  policySource.requireCurrent(await loading);
  assert.equal(compiled.length, 1);
  await preparation.ended();
});

Deno.test("a policy that was compiled before a reload is not used after the reload, for a possible new key", async () => {
  const { preparation, policySource, current, compiled, compiling } = await createScene();
  const { promise, resolve } = Promise.withResolvers<void>();
  compiling.gate = promise;
  preparation.learn(proposalOf(DOCUMENT));
  while (compiled.length === 0) await Promise.resolve();
  compiling.gate = Promise.resolve();
  const reloaded = await policySource.load(current);
  resolve();
  await preparation.ended();
  policySource.learn({ version: 2, sha256: digestOf(DOCUMENT) });
  policySource.requireCurrent(await policySource.load(reloaded));
  assert.deepEqual(compiled, [DOCUMENT, OTHER, DOCUMENT]);
});

Deno.test("a replaced proposal is neither compiled nor used for decisions", async () => {
  const { preparation, policySource, current, announced, compiled } = await createScene();
  preparation.learn(proposalOf(DOCUMENT));
  preparation.learn(proposalOf(writeDocument({ web01: HOSTS.web01 })));
  // The instance that proposed the version was killed.
  preparation.learn(undefined);
  await preparation.ended();
  policySource.requireCurrent(current);
  assert.deepEqual([announced, compiled], [[], []]);
});

Deno.test.each(
  [
    { name: "can't be used here", from: "database", document: "{}" },
    { name: "is not for this signer", from: "file", document: DOCUMENT },
  ] as const,
)("a proposal that $name is announced as prepared", async ({ from, document }) => {
  const { preparation, policySource, current, announced } = await createScene(from);
  preparation.learn(proposalOf(document));
  await preparation.ended();
  assert.deepEqual(announced, [digestOf(document)]);
  policySource.requireCurrent(current);
});
