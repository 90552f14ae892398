import assert from "node:assert/strict";
import { PolicySource, writeDocument } from "./policy.ts";
import { digestOf, type PolicyVersions, type StoredDocument } from "./state/postgres.ts";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

const { hosts: HOSTS, ...REST } = CONFIG;
const SETTINGS = { ...REST, state_db: "postgres://signer@127.0.0.1/gateway", policy_source: "database" };
const DOCUMENT = writeDocument(HOSTS);
const OTHER = writeDocument({});

/** A signer that decides by version 1, and what it has announced. */
async function createScene(from: "database" | "file" = "database") {
  const announced: string[] = [];
  const compiled: string[] = [];
  const compiling = { gate: Promise.resolve() };
  const policySource = new PolicySource({
    from,
    logger: { warn() {} },
    versions: {
      announcePrepared: (sha256: string) => Promise.resolve(void announced.push(sha256)),
    } as PolicyVersions,
    configFile: {
      read: () => Promise.resolve(JSON.stringify(SETTINGS)),
      parse: (text) => Promise.resolve(snapshotOf(JSON.parse(text)).config),
      async compile(text) {
        compiled.push(writeDocument(JSON.parse(text).hosts));
        await compiling.gate;
        return snapshotOf(JSON.parse(text));
      },
      replace: () => Promise.resolve(false),
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
const storedAs = (version: number, document: string) => ({ version, ...proposalOf(document) });

Deno.test("a proposal is compiled while the version before it is decided by, and takes effect without another compilation", async () => {
  const { preparation, policySource, current, announced, compiled } = await createScene();
  preparation.learn(proposalOf(DOCUMENT));
  policySource.requireCurrent(current);
  assert.deepEqual(announced, [], "nothing is announced before it is compiled");
  await preparation.ended();
  policySource.requireCurrent(current);
  assert.deepEqual([announced, compiled], [[digestOf(DOCUMENT)], [DOCUMENT]]);
  // The version comes without its document: it is known.
  policySource.learn({ version: 2, sha256: digestOf(DOCUMENT) });
  assert.throws(() => policySource.requireCurrent(current), { code: "state_stale" });
  const next = await policySource.load(current);
  policySource.requireCurrent(next);
  assert.deepEqual([...next.policy.hosts.keys()], Object.keys(HOSTS));
  assert.equal(compiled.length, 1);
});

Deno.test("a version that comes while it is compiled waits for that, and is not compiled twice", async () => {
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

Deno.test("what was compiled before a reload is not decided by after it: the reload may be for the sake of a new key", async () => {
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

Deno.test("a proposal that another one replaced is neither compiled nor decided by", async () => {
  const { preparation, policySource, current, announced, compiled } = await createScene();
  preparation.learn(proposalOf(DOCUMENT));
  preparation.learn(proposalOf(writeDocument({ web01: HOSTS.web01 })));
  // Whoever proposed it was killed.
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
)("nobody waits for a signer where a proposal $name", async ({ from, document }) => {
  const { preparation, policySource, current, announced } = await createScene(from);
  preparation.learn(proposalOf(document));
  await preparation.ended();
  assert.deepEqual(announced, [digestOf(document)]);
  policySource.requireCurrent(current);
});
