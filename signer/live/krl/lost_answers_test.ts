import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FakeClock } from "@gateway/shared/testing";
import { failingStore, memoryStore } from "../../testing/failing_store.ts";
import { QUIET_LIST } from "../../testing/live_state_scene.ts";
import type { StateStore } from "../state/store.ts";
import type { RecordedAnswer } from "./recorded.ts";
import { RevocationList } from "./revocation_list.ts";
import { REVOCATION_SECONDS } from "./certificates.ts";
import { NO_FREEZES } from "../freezes.ts";

const NOW = 1_700_000_000_000;

/** A list over a log that contains the answers by request. */
async function open(log: Readonly<Record<string, RecordedAnswer>>, store: StateStore = memoryStore()) {
  const clock = new FakeClock(NOW);
  const seen: { lost: RecordedAnswer[]; reads: number; held?: Promise<void> } = { lost: [], reads: 0 };
  const list = await RevocationList.open({
    ...{ ...QUIET_LIST, store, clock },
    async *findAnswers(requests, since) {
      assert.equal(since, clock.now() - REVOCATION_SECONDS * 1000);
      seen.reads++;
      await seen.held;
      for (const name of requests) {
        const answer = log[name];
        if (answer !== undefined) yield answer;
      }
    },
    onLost: (answers) => Promise.resolve(void seen.lost.push(...answers)),
  }, NO_FREEZES);
  return { list, store, seen, clock };
}

const answer = (serial: bigint): RecordedAnswer => ({
  ...{ caller: "broker-1", serial, isToken: false },
  reason: "answer-lost",
});
const request = (id: string) => ({ kind: "request", value: `${id} broker-1`, revokedAt: NOW }) as const;

Deno.test("a restarted signer finds requests in its log that were abandoned meanwhile", async () => {
  const store = memoryStore();
  await store.putRevocations([request("r-1"), request("r-2")]);
  const { list, seen } = await open({ "r-2 broker-1": answer(7n) }, store);
  assert.equal(list.listed.has({ serial: 7n }), false);
  await list.seekGivenUp();
  assert.equal(list.listed.has({ serial: 7n }), true);
  assert.deepEqual(seen, { lost: [answer(7n)], reads: 1 });
  assert.ok(list.isGivenUp("broker-1", "r-1"));
  assert.ok(!list.isGivenUp("broker-2", "r-1") && !list.isGivenUp("broker-1", undefined));
  await list.close();
});

Deno.test("a signer notified of an abandoned request reads its log once, without blocking the notification", async () => {
  const { list, seen } = await open({ "r-1 broker-1": answer(7n) });
  const { promise, resolve } = Promise.withResolvers<void>();
  seen.held = promise;
  const state = { revocations: [request("r-1")], krlVersion: list.current.version };
  await list.takeOver({ certificates: [], state });
  assert.ok(list.isGivenUp("broker-1", "r-1"), "at once");
  await list.takeOver({ certificates: [], state });
  resolve();
  await list.close();
  assert.ok(list.listed.has({ serial: 7n }));
  assert.equal(seen.reads, 1);
});

Deno.test("requests abandoned during a read of the log are looked up together in the next read", async () => {
  const { list, seen } = await open({ "r-2 broker-1": answer(7n), "r-3 broker-1": answer(8n) });
  const { promise, resolve } = Promise.withResolvers<void>();
  seen.held = promise;
  const all = ["r-1", "r-2", "r-3"].map((id) => list.giveUp("broker-1", [id]));
  while (seen.reads === 0 || !list.isGivenUp("broker-1", "r-3")) await Promise.resolve();
  for (let turn = 0; turn < 100; turn++) await Promise.resolve();
  resolve();
  await Promise.all(all);
  assert.equal(seen.reads, 2);
  assert.ok(list.listed.has({ serial: 7n }) && list.listed.has({ serial: 8n }));
  await list.close();
});

Deno.test("giveUp() rejects if the log cannot be read, and sweep() looks the request up again", async () => {
  const { list, seen } = await open({ "r-1 broker-1": answer(7n) });
  seen.held = Promise.reject(new AppError("internal", "no log"));
  await assert.rejects(list.giveUp("broker-1", ["r-1"]), { code: "internal" });
  assert.ok(list.isGivenUp("broker-1", "r-1"));
  await list.sweep();
  assert.equal(list.listed.has({ serial: 7n }), false);
  delete seen.held;
  await list.sweep();
  assert.equal(list.listed.has({ serial: 7n }), true);
  await list.close();
});

Deno.test("an abandoned request is forgotten after the revocation period without a new list version", async () => {
  const { list, clock } = await open({});
  await list.giveUp("broker-1", ["r-1"]);
  const { version } = list.current;
  await clock.advance((REVOCATION_SECONDS + 1) * 1000);
  await list.sweep();
  assert.ok(!list.isGivenUp("broker-1", "r-1"));
  assert.equal(list.current.version, version);
  await list.close();
});

Deno.test("a caller can abandon a limited number of requests, without effect on other callers", async () => {
  const { list } = await open({});
  for (let batch = 0; batch < 100; batch++) {
    await list.giveUp("broker-1", Array.from({ length: 100 }, (_, index) => `r-${batch}-${index}`));
  }
  assert.deepEqual([list.mayGiveUp("broker-1", 1), list.mayGiveUp("1", 1)], [false, true]);
  // The name of a caller can contain a space.
  await list.giveUp("x 1", ["r-1"]);
  assert.ok(list.mayGiveUp("1", 10_000));
  await list.giveUp("1", ["r-1"]);
  assert.ok(list.isGivenUp("1", "r-1"));
  await list.close();
});

Deno.test("an abandoned broker request ID also covers the longer ID of its control plane", async () => {
  const { list } = await open({});
  await list.giveUp("broker-1", ["call.0123456789ab"]);
  assert.ok(list.isGivenUp("broker-1", "call.0123456789ab.ba9876543210"));
  for (const id of ["call", "call.ba9876543210", "call.0123456789ab.x", "xcall.0123456789ab"]) {
    assert.ok(!list.isGivenUp("broker-1", id), id);
  }
  await list.close();
});

const ISSUED_AT = NOW / 1000;
const HOLDER = {
  ...{ peer: "broker-1", caller: "broker-1", endUser: "" },
  ...{ host: "web01", role: "target", elevationPrefix: "", pty: false },
} as const;
const CERTIFICATES = [{ holder: HOLDER, issuedAt: ISSUED_AT, validBefore: ISSUED_AT + 300, serials: [7n] }];

async function openTakeOver() {
  const store = failingStore();
  const list = await RevocationList.open({
    ...{ ...QUIET_LIST, store, clock: new FakeClock(NOW) },
    async *findAnswers(requests) {
      if (requests.has("r-1 broker-1")) yield answer(9n);
    },
  }, NO_FREEZES);
  return { list, store };
}

Deno.test("revocations of other signers are published after a failed write of the version is retried", async () => {
  const { list, store } = await openTakeOver();
  await list.revoke([{ kind: "caller", value: "broker-1" }]);
  const revocations = await store.loadRevocations(0);
  await list.takeOver({ certificates: [], state: { revocations, krlVersion: list.current.version } });
  const before = list.current;
  store.failing.add("putRevocations");
  await assert.rejects(list.takeOver({ certificates: CERTIFICATES }), { code: "internal" });
  store.failing.clear();
  await list.takeOver({ certificates: CERTIFICATES });
  assert.ok(list.listed.has({ serial: 7n }));
  assert.ok(list.current.version > before.version);
  assert.ok(list.current.bytes.length > before.bytes.length, "hosts are told");
});

Deno.test("requests abandoned at another signer are looked up after a failed store write is retried", async () => {
  const { list, store } = await openTakeOver();
  const keyId = { kind: "key_id", value: "k", revokedAt: NOW } as const;
  const state = { revocations: [request("r-1"), keyId], krlVersion: list.current.version };
  const others = { certificates: [], state };
  store.failing.add("putRevocations");
  await assert.rejects(list.takeOver(others), { code: "internal" });
  store.failing.clear();
  await list.takeOver(others);
  await list.close();
  assert.ok(list.listed.has({ serial: 9n }));
});
