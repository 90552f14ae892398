import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { assertLinearWork } from "@gateway/shared/testing";
import { checkEnvelope, isHostName, openEnvelope, Refusal } from "./check.ts";
import { signedBytesV1 } from "@gateway/shared/envelope";

/** From reference-signer.md, section 16. */
const WIRE =
  "eyJuIjoiMDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYiLCJoIjoid2ViMDEiLCJjIjoic3VkbyAtbiAtLSBzeXN0ZW1jdGwgcmVzdGFydCBuZ2lueCIsImUiOjE3MDAwMDAwMzAsInMiOiJsNXREUEE4cWtJdG45eElTd0tmaDZQalR0S25TalE1U2ZYUDg3YitzTlhaTGIvbnczNXVkU3lxeExvQ1FRU0d0NHp2MnBrSmh1NzQ3L3pzVUhFUUdBQT09In0";
const COMMAND = "sudo -n -- systemctl restart nginx";
const NONCE = "000102030405060708090a0b0c0d0e0f";
const EXPIRY = 1_700_000_030_000;

Deno.test("openEnvelope() reads the reference's test vector and reproduces its signed bytes", () => {
  const envelope = openEnvelope(WIRE);
  assert.ok(envelope !== undefined);
  assert.deepEqual(
    { ...envelope, signature: envelope.signature.length },
    { nonce: NONCE, host: "web01", command: COMMAND, expiry: "1700000030", signature: 64 },
  );
  assert.equal(
    Buffer.from(signedBytesV1(envelope, "gateway-sealed-exec-v1")).toString("hex"),
    "676174657761792d7365616c65642d657865632d763100000000000000002030303031303230333034303530363037303830393061306230633064306530660000000000000005776562303100000000000000227375646f202d6e202d2d2073797374656d63746c2072657374617274206e67696e78000000000000000a31373030303030303330",
  );
});

Deno.test.each([
  { name: "is valid", now: EXPIRY - 30_000 },
  { name: "is valid in its last second", now: EXPIRY + 999 },
  { name: "is valid five minutes before it expires", now: EXPIRY - 300_000 },
  { name: "has expired a second later", now: EXPIRY + 1000, reason: "the envelope has expired" },
  {
    name: "is not good more than five minutes before its end",
    now: EXPIRY - 300_001,
    reason: "the envelope expires too far in the future: does a clock go wrong?",
  },
  {
    name: "says who has not signed before it says for which host it is",
    now: EXPIRY,
    host: "web02",
    signed: false,
    reason: "the signature is not of a pinned key",
  },
  {
    name: "says that it is for another host before it says that it has expired",
    now: EXPIRY + 9000,
    host: "web02",
    reason: "the envelope is for another host",
  },
])("checkEnvelope() $name", async ({ now, host = "web01", signed = true, reason }) => {
  const checked = checkEnvelope(WIRE, { host, now, verify: () => Promise.resolve(signed) });
  if (reason === undefined) assert.deepEqual(await checked, { nonce: NONCE, command: COMMAND });
  else await assert.rejects(checked, { constructor: Refusal, message: reason });
});

Deno.test.each([
  { name: "a long text without an end", make: (length: number) => `{"n":"${"a".repeat(length)}` },
  { name: "escapes without an end", make: (length: number) => `{"n":"${"\\n".repeat(length)}` },
  {
    name: "escapes before another member",
    make: (length: number) => `{"n":"${"\\na".repeat(length)}","x":1}`,
  },
  {
    name: "an expiry of many digits",
    make: (length: number) => `{"n":"","h":"","c":"","e":${"1".repeat(length)}`,
  },
])("openEnvelope() rejects $name in linear time", ({ make }) => {
  assertLinearWork((length) => {
    const wire = Buffer.from(make(length)).toString("base64url");
    assert.equal(openEnvelope(wire), undefined);
  }, 20_000);
});

Deno.test.each([
  { name: "web01", expected: true },
  { name: "Web-01.example_x", expected: true },
  { name: "a".repeat(64), expected: true },
  { name: "a".repeat(65), expected: false },
  { name: "-web01", expected: false },
  { name: "web01\n", expected: false },
  { name: "web 01", expected: false },
  { name: "", expected: false },
])("isHostName('$name') is $expected", ({ name, expected }) => {
  assert.equal(isHostName(name), expected);
});
