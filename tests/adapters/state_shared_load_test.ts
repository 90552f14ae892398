/** What a signer reads of what others have changed: no more than that, and nothing of it is missed. */
import assert from "node:assert/strict";
import type { News } from "@gateway/shared/instances";
import { poll } from "../stage/poll.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { batchOf, freezeOf, grantOf, NOW, openShared } from "./state_fixture.ts";

Deno.test({
  name: "a look at a PostgreSQL state reads what was changed, also what was removed",
  ignore: isPostgresMissing,
  async fn() {
    await using server = await PostgresServer.start();
    const here = await openShared({ state_db: server.url() }, [], "signer-1");
    const other = await openShared({ state_db: server.url() }, [], "signer-2");
    let wakes = 0;
    const link = await here.shared.connect(() => wakes++);
    let seen = { state: 0n, certificates: 0n };
    const look = async () => {
      const content = await here.shared.load(link, { seen, now: NOW, knownPolicies: [] });
      seen = content.epochs;
      return content;
    };
    const grantsOf = ({ state }: Awaited<ReturnType<typeof look>>) => state?.grants.map(({ id }) => id);
    await other.insertGrant(grantOf({ id: "a" }));
    assert.deepEqual(grantsOf(await look()), ["a"]);
    assert.equal((await look()).state, undefined, "nothing has changed");
    const woken = wakes;
    await other.addCertificates([batchOf()]);
    await here.addCertificates([batchOf({ serials: [7n] })]);
    const issued = await look();
    assert.deepEqual([issued.state, issued.certificates.map(({ serials }) => serials)], [
      undefined,
      [batchOf().serials],
    ]);
    assert.equal(wakes, woken, "certificates wake nobody");
    assert.deepEqual((await look()).certificates, []);
    await other.deleteGrant("a");
    assert.deepEqual(grantsOf(await look()), [], "what is removed is a change");
    await other.putFreeze(freezeOf());
    assert.equal((await look()).state?.freezes.length, 1);
    await other.deleteFreeze(freezeOf());
    assert.deepEqual((await look()).state?.freezes, []);
    await other.putRevocations([{ kind: "caller", value: "broker-1", revokedAt: NOW }], NOW);
    assert.deepEqual((await look()).state?.krlVersion, NOW);
    await other.shared.policy.propose("{}");
    assert.equal((await look()).state?.proposal?.document, "{}");
    link.close();
    await Promise.all([here.close(), other.close()]);
  },
});

Deno.test({
  name: "a look at a PostgreSQL state tells the others once what it has seen, and nobody where it is alone",
  ignore: isPostgresMissing,
  async fn() {
    await using server = await PostgresServer.start();
    const here = await openShared({ state_db: server.url() }, [], "signer-1");
    const other = await openShared({ state_db: server.url() }, [], "signer-2");
    const news: News[] = [];
    const link = await here.shared.connect((heard) => news.push(heard));
    const otherLink = await other.shared.connect(() => {});
    const self = { name: "signer-2", session: "2" };
    await otherLink.enter(self, "1");
    await otherLink.beat(self, 5n);
    await link.enter({ name: "signer-1", session: "1" }, "1");
    await otherLink.beat({ ...self, session: "of one that is gone" }, 6n);
    await otherLink.beat(self, 7n);
    await otherLink.beat(self, 7n);
    await other.insertGrant(grantOf({ id: "a" }));
    await poll(() => Promise.resolve(news.includes("change")), { what: "news of a change" });
    assert.deepEqual(news, ["seen", "change"]);
    for (const each of [link, otherLink]) each.close();
    for (const store of [here, other]) await store.close();
  },
});
