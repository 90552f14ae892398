import assert from "node:assert/strict";
import { formatKeyId } from "@gateway/shared/ssh";
import { type CertificateHolder, type FoundBatch, IssuedCertificates } from "./certificates.ts";
import { type CertificateSubject, CLOCK_SKEW_SECONDS } from "./certificates.ts";

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

function serialsIn(found: Iterable<FoundBatch>): readonly bigint[] {
  return [...found].flatMap(({ serials }) => serials);
}

/** Two of the holder in one second, one a second later, one of somebody else. */
function sample(): IssuedCertificates {
  const issued = new IssuedCertificates();
  issued.add(HOLDER, { serial: 1n, issuedAt: 100, validBefore: 400 });
  issued.add(HOLDER, { serial: 2n ** 64n - 1n, issuedAt: 100, validBefore: 400 });
  issued.add(HOLDER, { serial: 3n, issuedAt: 101, validBefore: 401 });
  issued.add({ ...HOLDER, peer: "broker-2", caller: "broker-2", endUser: "" }, {
    serial: 4n,
    issuedAt: 100,
    validBefore: 400,
  });
  return issued;
}

Deno.test.each<[name: string, subject: CertificateSubject, expected: readonly bigint[]]>([
  ["a caller", { kind: "caller", value: "broker-1" }, [1n, 2n ** 64n - 1n, 3n]],
  ["a caller whose name is written in another way", { kind: "caller", value: "BROKER-2." }, [4n]],
  ["a forwarder: all that it asked for", { kind: "caller", value: "control-plane" }, [
    1n,
    2n ** 64n - 1n,
    3n,
  ]],
  ["an end user", { kind: "end_user", value: "Alice" }, [1n, 2n ** 64n - 1n, 3n]],
  ["a serial of 64 bits", { kind: "serial", value: "18446744073709551615" }, [2n ** 64n - 1n]],
  ["a serial that is no number", { kind: "serial", value: "0x1" }, []],
  ["a key id: the twins of one second", { kind: "key_id", value: KEY_ID }, [1n, 2n ** 64n - 1n]],
  ["a part of a key id", { kind: "key_id", value: KEY_ID.replace(" pty=1", "") }, []],
  ["nobody", { kind: "end_user", value: "bob" }, []],
])("find() gives the certificates of %s", (_name, subject, expected) => {
  assert.deepEqual(serialsIn(sample().find(subject, Infinity)), expected);
});

Deno.test("find() leaves out what was issued later", () => {
  const found = sample().find({ kind: "caller", value: "broker-1" }, 100);
  assert.deepEqual(serialsIn(found), [1n, 2n ** 64n - 1n]);
});

Deno.test("find() gives many a part at a time, and goes on where others are added between", () => {
  const issued = new IssuedCertificates();
  const add = (serial: number) =>
    issued.add(HOLDER, { serial: BigInt(serial), issuedAt: 100, validBefore: 400 });
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

Deno.test("findOwn() gives a caller its own certificates, exactly by name, and no forwarder those of its brokers", () => {
  const issued = sample();
  assert.deepEqual(issued.findOwn("broker-1", [1n, 4n, 9n]), [1n]);
  for (const caller of ["control-plane", "BROKER-1", ""]) {
    assert.deepEqual(issued.findOwn(caller, [1n, 4n]), []);
  }
});

Deno.test("forget() keeps what a host whose clock is 60 s behind still believes", () => {
  const issued = sample();
  const left = () => serialsIn(issued.find({ kind: "caller", value: "broker-1" }, Infinity));
  issued.forget(459);
  assert.equal(left().length, 3);
  issued.forget(460);
  assert.deepEqual(left(), [3n]);
});

Deno.test("hasRoomFor() is false for a caller that has its share, and true again when its certificates have ended", () => {
  const issued = new IssuedCertificates({ total: 200, perCaller: 100 });
  let serial = 0n;
  const fill = (caller: string) => {
    for (; issued.hasRoomFor(caller); serial++) {
      issued.add({ ...HOLDER, caller, endUser: `user-${serial}` }, {
        serial: serial + 1n,
        issuedAt: 100,
        validBefore: 400,
      });
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

Deno.test("a caller that is signed for at 5,000 a second has room for as long as its certificates live", () => {
  const issued = new IssuedCertificates();
  const seconds = 300 + CLOCK_SKEW_SECONDS;
  for (let second = 0; second < seconds; second++) {
    for (let count = 0; count < 5000; count++) {
      issued.add(HOLDER, { serial: 1n, issuedAt: second, validBefore: second + 300 });
    }
  }
  assert.equal(issued.hasRoomFor(HOLDER.caller), true);
});

Deno.test("serials are looked for without taking each one out: many of them hold signs up less than one caller's list", () => {
  const issued = new IssuedCertificates();
  for (let serial = 1n; serial <= 200_000n; serial++) {
    issued.add(HOLDER, { serial, issuedAt: 100, validBefore: 400 });
  }
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
