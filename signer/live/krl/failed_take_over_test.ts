/** What other signers have done, taken over again after the store failed in the middle of it. */
import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { NO_FREEZES } from "../freezes.ts";
import { failingStore } from "../../testing/failing_store.ts";
import { RevocationList } from "./revocation_list.ts";

const NOW = 1_700_000_000_000;
const ISSUED_AT = NOW / 1000;
const HOLDER = {
  ...{ peer: "broker-1", caller: "broker-1", endUser: "" },
  ...{ host: "web01", role: "target", elevationPrefix: "", pty: false },
} as const;
const CERTIFICATES = [{ holder: HOLDER, issuedAt: ISSUED_AT, validBefore: ISSUED_AT + 300, serials: [7n] }];

async function open() {
  const store = failingStore();
  const list = await RevocationList.open({
    ...{ store, clock: new FakeClock(NOW), logger: { info() {}, warn() {}, error() {} } },
    ...{ onStoreError() {}, forwarders: [], readRecords: async function* () {} },
    async *findAnswers(requests) {
      if (requests.has("r-1 broker-1")) {
        yield { caller: "broker-1", serial: 9n, isToken: false, reason: "answer-lost" };
      }
    },
    onLost: () => Promise.resolve(),
  }, NO_FREEZES);
  return { list, store };
}

Deno.test("what is revoked by others is published, although the store took the list's version only later", async () => {
  const { list, store } = await open();
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

Deno.test("what was given up elsewhere is looked for, although the store failed when it was heard of", async () => {
  const { list, store } = await open();
  const request = { kind: "request", value: "r-1 broker-1", revokedAt: NOW } as const;
  const keyId = { kind: "key_id", value: "k", revokedAt: NOW } as const;
  const others = {
    ...{ certificates: [], state: { revocations: [request, keyId], krlVersion: list.current.version } },
  };
  store.failing.add("putRevocations");
  await assert.rejects(list.takeOver(others), { code: "internal" });
  store.failing.clear();
  await list.takeOver(others);
  await list.close();
  assert.ok(list.listed.has({ serial: 9n }));
});
