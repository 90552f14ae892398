import assert from "node:assert/strict";
import { formatKeyId, SshReader } from "@gateway/shared/ssh";
import {
  type CertificateHolder,
  type CertificateSubject,
  CLOCK_SKEW_SECONDS,
  type FoundBatch,
  IssuedCertificates,
} from "./certificates.ts";
import { FakeClock } from "@gateway/shared/testing";
import { NO_FREEZES } from "../freezes.ts";
import { failingStore } from "../../testing/failing_store.ts";
import { RevocationList } from "./revocation_list.ts";
import { QUIET_LIST } from "../../testing/live_state_scene.ts";
import { encodeRecord, formatTime } from "@gateway/shared/audit";
import { describeSignRequest } from "@gateway/shared/policy";
import { signRequest } from "@gateway/shared/wire";
import {
  findAnswers,
  readIssuedRecord,
  readIssuedRecords,
  type RecordedCertificate,
  toIssued,
} from "./recorded.ts";

const HOLDER: CertificateHolder = {
  peer: "control-plane",
  caller: "broker-1",
  endUser: "alice",
  host: "web01",
  role: "target",
  elevationPrefix: "sudo -n",
  pty: true,
};
const KEY_ID = formatKeyId({ ...HOLDER, issuedAt: 100 });

const AT_100 = { issuedAt: 100, validBefore: 400 };
const OF_HOLDER = [1n, 2n ** 64n - 1n, 3n];

function serialsIn(found: Iterable<FoundBatch>): readonly bigint[] {
  return [...found].flatMap(({ serials }) => serials);
}

/** Two certificates of the holder in one second, one a second later, and one of another caller. */
function sample(): IssuedCertificates {
  const issued = new IssuedCertificates();
  for (const serial of OF_HOLDER.slice(0, 2)) issued.add(HOLDER, { serial, ...AT_100 });
  issued.add(HOLDER, { serial: 3n, issuedAt: 101, validBefore: 401 });
  issued.add({ ...HOLDER, peer: "broker-2", caller: "broker-2", endUser: "" }, { serial: 4n, ...AT_100 });
  return issued;
}

Deno.test.each<[name: string, subject: CertificateSubject, expected: readonly bigint[]]>([
  ["a caller", { kind: "caller", value: "broker-1" }, OF_HOLDER],
  ["a caller in another spelling", { kind: "caller", value: "BROKER-2." }, [4n]],
  ["a forwarder: all certificates that it requested", { kind: "caller", value: "control-plane" }, OF_HOLDER],
  ["an end user", { kind: "end_user", value: "Alice" }, OF_HOLDER],
  ["a serial of 64 bits", { kind: "serial", value: "18446744073709551615" }, [2n ** 64n - 1n]],
  ["a serial that is no number", { kind: "serial", value: "0x1" }, []],
  ["a key id: the twins of one second", { kind: "key_id", value: KEY_ID }, [1n, 2n ** 64n - 1n]],
  ["a part of a key id", { kind: "key_id", value: KEY_ID.replace(" pty=1", "") }, []],
  ["nobody", { kind: "end_user", value: "bob" }, []],
])("find() returns the certificates of %s", (_name, subject, expected) => {
  assert.deepEqual(serialsIn(sample().find(subject, Infinity)), expected);
});

Deno.test("find() omits certificates that were issued after the given time", () => {
  const found = sample().find({ kind: "caller", value: "broker-1" }, 100);
  assert.deepEqual(serialsIn(found), [1n, 2n ** 64n - 1n]);
});

Deno.test("find() yields large results in batches and continues if certificates are added", () => {
  const issued = new IssuedCertificates();
  const add = (serial: number) => issued.add(HOLDER, { serial: BigInt(serial), ...AT_100 });
  const serials = Array.from({ length: 9000 }, (_, index) => index + 1);
  serials.forEach(add);
  const found = [];
  for (const batch of issued.find({ kind: "caller", value: HOLDER.caller }, Infinity)) {
    assert.ok(batch.serials.length <= 1000);
    found.push(batch);
    add(10_000 + found.length);
  }
  assert.deepEqual(serialsIn(found).map(Number), serials);
});

Deno.test("findOwn() returns certificates only for the exact caller, and not to its forwarder", () => {
  const issued = sample();
  assert.deepEqual(issued.findOwn("broker-1", [1n, 4n, 9n]), [1n]);
  for (const caller of ["control-plane", "BROKER-1", ""]) {
    assert.deepEqual(issued.findOwn(caller, [1n, 4n]), []);
  }
});

Deno.test("forget() keeps certificates that a host with a clock 60 s behind still accepts", () => {
  const issued = sample();
  const left = () => serialsIn(issued.find({ kind: "caller", value: "broker-1" }, Infinity));
  issued.forget(459);
  assert.equal(left().length, 3);
  issued.forget(460);
  assert.deepEqual(left(), [3n]);
});

Deno.test("hasRoomFor() is false once a caller's share is used, and true after its certificates expired", () => {
  const issued = new IssuedCertificates({ total: 200, perCaller: 100 });
  let serial = 0n;
  const fill = (caller: string) => {
    for (; issued.hasRoomFor(caller); serial++) {
      issued.add({ ...HOLDER, caller, endUser: `user-${serial}` }, { serial: serial + 1n, ...AT_100 });
    }
  };
  fill("broker-1");
  assert.equal(issued.hasRoomFor("broker-2"), true, "one caller alone does not fill it");
  fill("broker-2");
  fill("broker-3");
  assert.ok(serial < 200n);
  issued.forget(460);
  for (const caller of ["broker-1", "broker-2", "broker-3"]) assert.equal(issued.hasRoomFor(caller), true);
});

Deno.test("a caller with 5,000 certificates a second has room until its certificates expire", () => {
  const issued = new IssuedCertificates();
  const seconds = 300 + CLOCK_SKEW_SECONDS;
  for (let second = 0; second < seconds; second++) {
    for (let count = 0; count < 5000; count++) {
      issued.add(HOLDER, { serial: 1n, issuedAt: second, validBefore: second + 300 });
    }
  }
  assert.equal(issued.hasRoomFor(HOLDER.caller), true);
});

Deno.test("20 serials are looked up in less than twice the time of one caller's list", () => {
  const issued = new IssuedCertificates();
  for (let serial = 1n; serial <= 200_000n; serial++) issued.add(HOLDER, { serial, ...AT_100 });
  const least = (work: () => unknown) =>
    Math.min(...Array.from({ length: 3 }, () => {
      const from = performance.now();
      work();
      return performance.now() - from;
    }));
  const list = least(() => [...issued.find({ kind: "caller", value: HOLDER.caller }, Infinity)]);
  const serials = Array.from({ length: 20 }, (_, index) => 199_000n + BigInt(index));
  const own = least(() => issued.findOwn(HOLDER.caller, serials));
  const found = least(() =>
    serials.map((serial) => [...issued.find({ kind: "serial", value: `${serial}` }, Infinity)])
  );
  assert.ok(own + found < 2 * list, `${own} and ${found} ms, beside ${list} ms for all`);
});

const NOW = 1_700_000_000_000;
const MANY = 20_000;

/** A list of many certificates of `bulk` and two of others, none revoked. */
async function open() {
  const clock = new FakeClock(NOW);
  /** Runs whenever other work gets its turn. */
  let asked = 0;
  const turn = { happen: () => {}, count: 0 };
  const list = await RevocationList.open({
    ...QUIET_LIST,
    store: failingStore(),
    clock: {
      // Every step takes a whole time slice.
      now: () => clock.now() + ++asked,
      sleep(ms, signal) {
        if (ms > 1) return clock.sleep(ms, signal);
        turn.count++;
        turn.happen();
        return Promise.resolve();
      },
    },
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

/** The version and the number of serials in the current list. */
function published({ current }: RevocationList): readonly [version: number, serials: number] {
  const reader = new SshReader(current.bytes);
  reader.raw(12);
  const version = Number(reader.u64());
  assert.equal(version, current.version, "the version that is announced is the one that is signed");
  return [version, Math.max(0, (current.bytes.length - EMPTY_BYTES - SECTION_BYTES) / 8)];
}

const EMPTY_BYTES = 8 + 4 + 8 + 8 + 8 + 4 + 4 + "gateway".length;
const SECTION_BYTES = 1 + 4 + 4 + 4 + 1 + 4;

Deno.test("a long list is built in slices, and readers get the complete previous list meanwhile", async () => {
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

Deno.test("revocations during a long build get separate lists in their order", async () => {
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

const NOW_RECORDED = 1_700_000_000_500;
const SERIAL = 2n ** 64n - 1n;
const REQUEST = { host: "web01", role: "target", purpose: "session", session_mode: "exec", command: "" };

function lineOf(request: object, entry: object = {}, now = NOW_RECORDED): string {
  const command = describeSignRequest(signRequest.parse({ ...REQUEST, ...request }));
  const fields = { caller: "broker-1", host: "10.0.0.1:22", serial: SERIAL, outcome: "issued", command };
  const { body, ext } = encodeRecord({ ...fields, ...entry }, { time: formatTime(now) });
  return `${body},"seq":1,"prev_hash":"","sig":""${ext && `,"ext":${ext}`}}`;
}

const EXPECTED: RecordedCertificate = {
  caller: "broker-1",
  endUser: "",
  host: "10.0.0.1:22",
  role: "target",
  serial: SERIAL,
  recordedAt: NOW_RECORDED,
};

Deno.test.each<[name: string, line: string, expected: RecordedCertificate | undefined]>([
  ["a certificate, its serial exact", lineOf({}), EXPECTED],
  ["one for an end user", lineOf({ end_user: "alice" }), { ...EXPECTED, endUser: "alice" }],
  [
    "one of a bastion, whose reason names a user",
    lineOf({ role: "bastion", session_mode: "", reason: "for user=root" }),
    { ...EXPECTED, role: "bastion" },
  ],
  [
    "one that was issued through elevation",
    lineOf({ end_user: "alice", sudo: true, pty: true, command: "id" }),
    { ...EXPECTED, endUser: "alice" },
  ],
  ["a refusal", lineOf({}, { outcome: "denied" }), undefined],
  [
    "a command that says it was issued",
    lineOf({}, { outcome: "denied", command: 'role=target purpose=x "outcome":"issued"' }),
    undefined,
  ],
  ["a token of a cluster", lineOf({}, { target_type: "k8s", serial: 0n }), undefined],
  ["half a line", lineOf({}).slice(0, 200), undefined],
  ["no JSON", "issued", undefined],
])("readIssuedRecord() of %s", (_name, line, expected) => {
  assert.deepEqual(readIssuedRecord(line), expected);
});

Deno.test("readIssuedRecords() reads records back to the given time", async () => {
  const lines = (async function* () {
    for (const age of [0, 1000, 5000, 20_000, 1]) {
      yield lineOf({}, { serial: BigInt(age + 1) }, NOW_RECORDED - age);
      yield "not a record";
    }
  })();
  const found = [];
  for await (const { serial } of readIssuedRecords(lines, NOW_RECORDED - 5000)) found.push(serial);
  assert.deepEqual(found, [1n, 1001n, 5001n]);
});

Deno.test("toIssued() returns a holder for each forwarder and the longest validity", () => {
  const { holders, facts } = toIssued({ ...EXPECTED, endUser: "alice" }, ["control-plane"]);
  assert.deepEqual(holders.map(({ peer, caller, endUser }) => ({ peer, caller, endUser })), [
    { peer: "broker-1", caller: "broker-1", endUser: "alice" },
    { peer: "control-plane", caller: "broker-1", endUser: "alice" },
  ]);
  assert.deepEqual(facts, { serial: SERIAL, issuedAt: 1_700_000_000, validBefore: 1_700_000_900 });
});

Deno.test("findAnswers() finds the certificates of a caller's request IDs, which no command can forge", async () => {
  const of = (request_id: string, entry: object) => lineOf({}, { request_id, ...entry });
  const lines = [
    of("r-1", { serial: 1n }),
    of("r-1", { serial: 2n, target_type: "k8s" }),
    of("r-1", { serial: 3n, caller: "broker-2" }),
    of("r-1", { serial: 4n, outcome: "frozen_denied" }),
    of("r-2", { serial: 5n }),
    of("r-2", { serial: 6n, command_line: "echo rid=r-1" }),
    of("r-2", { serial: 13n, command: "echo rid=r-1" }),
    lineOf({}, { serial: 14n, command: "role=target purpose=oneshot cmd=echo rid=r-2 rid=r-1" }),
    of("r-11", { serial: 7n }),
    lineOf({}, { serial: 8n, command_line: "echo rid=r-1x" }),
    of("r-1", { serial: 9n, command: "", command_line: "" }),
    of("r-1.0123456789ab", { serial: 12n }),
    `not a record rid=r-1 "outcome":"issued"`,
    lineOf({}, { request_id: "r-1", serial: 10n }, NOW_RECORDED - 60_000),
    of("r-1", { serial: 11n }),
  ];
  const find = (...wanted: string[]) =>
    Array.fromAsync(findAnswers(ReadableStream.from(lines), new Set(wanted), NOW_RECORDED - 1000));
  const lost = { caller: "broker-1", isToken: false, reason: "answer-lost" };
  assert.deepEqual(
    await find("r-1 broker-1"),
    [1n, 2n, 14n, 9n, 12n].map((serial) => ({ ...lost, serial, isToken: serial === 2n })),
  );
  assert.deepEqual(await find("r-1 broker-3", "x"), []);
  assert.deepEqual(await find("serial=5 broker-1", "serial=3 broker-1", "serial=8 broker-2", "serial=1"), [
    { caller: "broker-1", serial: 5n, isToken: false, reason: "named-elsewhere" },
  ]);
});
