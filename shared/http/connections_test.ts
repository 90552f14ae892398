import assert from "node:assert/strict";
import { type ConnectionLimits, ConnectionRoom, DEFAULT_LIMITS } from "./connections.ts";

const LIMITS: ConnectionLimits = { strangers: 4, strangersPerSource: 2, known: 2, reserved: 1 };
const KNOWN = { kind: "known" } as const;

function enterAll(room: ConnectionRoom<number>, addresses: readonly string[]) {
  return addresses.map((address, index) => room.enter(index, address));
}

Deno.test.each<
  {
    readonly name: string;
    readonly addresses: readonly string[];
    readonly out: readonly (number | undefined)[];
  }
>([
  {
    name: "the oldest of a source goes when the source has too many",
    addresses: ["192.0.2.1", "192.0.2.1", "192.0.2.1"],
    out: [undefined, undefined, 0],
  },
  {
    name: "sources don't push each other out while there is room",
    addresses: ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"],
    out: [undefined, undefined, undefined, undefined],
  },
  {
    name: "the largest source loses its oldest when all have too many, not the one that came first",
    addresses: ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"],
    out: [undefined, undefined, undefined, undefined, 1],
  },
  {
    name: "an IPv6 network of 64 bits is one source",
    addresses: ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"],
    out: [undefined, undefined, 0, undefined],
  },
  {
    name: "an IPv4 address in IPv6 is that IPv4 address",
    addresses: ["::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"],
    out: [undefined, undefined, 0, undefined],
  },
  {
    name: "a link-local address has a zone",
    addresses: ["fe80::1%eth0", "fe80::2%eth0", "fe80::3%eth0"],
    out: [undefined, undefined, 0],
  },
])("ConnectionRoom.enter(): $name", ({ addresses, out }) => {
  assert.deepEqual(enterAll(new ConnectionRoom<number>(LIMITS), addresses), out);
});

Deno.test("ConnectionRoom: strangers never push out who is known, and have their places back", () => {
  const room = new ConnectionRoom<string>(LIMITS);
  assert.equal(room.enter("broker", "192.0.2.1"), undefined);
  assert.equal(room.admit("broker", KNOWN), true);
  for (let index = 0; index < 100; index++) {
    assert.notEqual(room.enter(`stranger ${index}`, `192.0.2.${index % 10}`), "broker");
  }
  assert.equal(room.isKnown("broker"), true);
  assert.equal(room.isKnown("stranger 99"), false);
});

Deno.test("ConnectionRoom.admit() keeps room for reserved peers that the known can't take", () => {
  const room = new ConnectionRoom<string>({ ...LIMITS, strangersPerSource: 4 });
  for (const name of ["a", "b", "c", "operator"]) room.enter(name, "192.0.2.1");
  assert.equal(room.admit("a", KNOWN), true);
  assert.equal(room.admit("b", KNOWN), true);
  assert.equal(room.admit("c", KNOWN), false);
  assert.equal(room.isKnown("c"), false);
  assert.equal(room.admit("operator", { kind: "reserved" }), true);
  assert.equal(room.admit("c", { kind: "reserved" }), false);
  room.leave("operator");
  room.leave("b");
  assert.equal(room.admit("c", KNOWN), true);
});

Deno.test("ConnectionRoom.admit() counts a connection once, and none that has left", () => {
  const room = new ConnectionRoom<string>({ ...LIMITS, known: 1, reserved: 0 });
  room.enter("a", "192.0.2.1");
  assert.equal(room.admit("a", KNOWN), true);
  assert.equal(room.admit("a", KNOWN), true);
  room.leave("a");
  assert.equal(room.admit("a", KNOWN), false);
  room.enter("b", "192.0.2.1");
  assert.equal(room.admit("b", KNOWN), true);
});

Deno.test("the limits of a listener together are what a process may have open by default", () => {
  const { strangers, known, reserved } = DEFAULT_LIMITS;
  assert.equal(strangers + known + reserved, 1024);
});

Deno.test("ConnectionRoom.admit(): one known peer leaves room for every other", () => {
  const room = new ConnectionRoom<string>({
    strangers: 1000,
    strangersPerSource: 1000,
    known: 100,
    reserved: 8,
  });
  const take = (name: string, wanted: number, kind: "known" | "reserved" = "known") => {
    let got = 0;
    for (let index = 0; index < wanted; index++) {
      const connection = `${name} ${crypto.randomUUID()}`;
      room.enter(connection, "192.0.2.1");
      if (room.admit(connection, { kind, name })) got += 1;
    }
    return got;
  };
  assert.equal(take("greedy", 200), 50);
  assert.equal(take("second", 200), 25);
  for (let caller = 0; caller < 20; caller++) assert.equal(take(`modest ${caller}`, 1), 1);
  assert.equal(take("operator", 10, "reserved"), 10);
});

Deno.test("ConnectionRoom: a known peer that leaves has its share back", () => {
  const room = new ConnectionRoom<number>({ ...LIMITS, strangersPerSource: 4 });
  for (const connection of [0, 1, 2]) room.enter(connection, "192.0.2.1");
  assert.equal(room.admit(0, { kind: "known", name: "broker" }), true);
  assert.equal(room.admit(1, { kind: "known", name: "broker" }), false);
  room.leave(0);
  room.leave(0);
  assert.equal(room.admit(1, { kind: "known", name: "broker" }), true);
  assert.equal(room.admit(2, { kind: "known", name: "broker" }), false);
});
