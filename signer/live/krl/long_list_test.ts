import assert from "node:assert/strict";
import { SshReader } from "@gateway/shared/ssh";
import { FakeClock } from "@gateway/shared/testing";
import { NO_FREEZES } from "../freezes.ts";
import { failingStore } from "../../testing/failing_store.ts";
import { RevocationList } from "./revocation_list.ts";

const NOW = 1_700_000_000_000;
const MANY = 20_000;

/** A list of many certificates of `bulk` and two of others, none revoked. */
async function open() {
  const clock = new FakeClock(NOW);
  /** What happens whenever other work has its turn. */
  let asked = 0;
  const turn = { happen: () => {}, count: 0 };
  const list = await RevocationList.open({
    store: failingStore(),
    clock: {
      // So that every step takes a slice.
      now: () => clock.now() + ++asked,
      sleep(ms, signal) {
        if (ms > 1) return clock.sleep(ms, signal);
        turn.count++;
        turn.happen();
        return Promise.resolve();
      },
    },
    logger: { info() {}, warn() {}, error() {} },
    onStoreError() {},
    forwarders: [],
    readRecords: async function* () {},
    findAnswers: async function* () {},
    onLost: () => Promise.resolve(),
  }, NO_FREEZES);
  const add = (serial: number, caller: string) =>
    list.add(
      { peer: caller, caller, endUser: "", host: "web01", role: "target", elevationPrefix: "", pty: false },
      { serial: BigInt(serial), issuedAt: NOW / 1000, validBefore: NOW / 1000 + 300 },
    );
  for (let serial = 1; serial <= MANY; serial++) add(serial, "bulk");
  add(MANY + 1, "broker-1");
  add(MANY + 2, "broker-2");
  return { list, add, turn };
}

/** The version and how many serials the bytes of the list in force say. */
function published({ current }: RevocationList): readonly [version: number, serials: number] {
  const reader = new SshReader(current.bytes);
  reader.raw(12);
  const version = Number(reader.u64());
  assert.equal(version, current.version, "the version that is announced is the one that is signed");
  return [version, Math.max(0, (current.bytes.length - EMPTY_BYTES - SECTION_BYTES) / 8)];
}

const EMPTY_BYTES = 8 + 4 + 8 + 8 + 8 + 4 + 4 + "gateway".length;
const SECTION_BYTES = 1 + 4 + 4 + 4 + 1 + 4;

Deno.test("a long list is made in turns with other work, and what is published meanwhile is the list before, whole", async () => {
  const { list, add, turn } = await open();
  const first = list.current;
  turn.happen = () => {
    assert.equal(list.current, first);
    assert.deepEqual(published(list), [first.version, 0]);
    add(MANY + 10 + turn.count, "bulk");
  };
  const { version, revoked } = await list.revoke([{ kind: "caller", value: "bulk" }]);
  assert.ok(turn.count >= MANY / 1000, `${turn.count} turns`);
  assert.deepEqual(published(list), [version, revoked]);
  assert.equal(revoked, MANY, "of what comes meanwhile nothing leaves, for its caller is frozen");
});

Deno.test("revocations that come while a long list is made have lists of their own, in their order", async () => {
  const { list, turn } = await open();
  const seen: (readonly [number, number])[] = [];
  const revoke = async (kind: "caller" | "serial", value: string) => {
    const { version } = await list.revoke([{ kind, value }]);
    seen.push(published(list));
    return version;
  };
  const later: Promise<number>[] = [];
  turn.happen = () => {
    if (later.length === 0) later.push(revoke("caller", "broker-1"), revoke("serial", `${MANY + 2}`));
  };
  const bulk = await revoke("caller", "bulk");
  const [one = 0, other = 0] = await Promise.all(later);
  assert.deepEqual(seen, [[bulk, MANY], [one, MANY + 1], [other, MANY + 2]]);
  assert.ok(bulk < one && one < other);
});
