import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { userCertificate, type UserCertificateInput } from "./user_certificate.ts";

const input: UserCertificateInput = {
  publicKey: new Uint8Array(32).fill(1),
  nonce: new Uint8Array(32).fill(2),
  serial: 18_446_744_073_709_551_615n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principal: "host:web01",
  sourceAddress: "",
  forceCommand: "",
  bastion: false,
  pty: false,
  nowMs: 1_700_000_000_999,
  ttlSeconds: 120,
};

Deno.test("userCertificate() of a bare session", () => {
  assert.deepEqual(userCertificate(input), {
    publicKey: input.publicKey,
    nonce: input.nonce,
    serial: input.serial,
    keyId: input.keyId,
    principals: ["host:web01"],
    validAfter: 1_699_999_970,
    validBefore: 1_700_000_120,
    criticalOptions: {},
    extensions: [],
  });
});

// The cases of the table of certificate contents.
Deno.test.each([
  {
    name: "a one-shot",
    more: { forceCommand: "ls -l" },
    options: { "force-command": "ls -l" },
    extensions: [],
  },
  { name: "a terminal", more: { pty: true }, options: {}, extensions: ["permit-pty"] },
  { name: "a bastion", more: { bastion: true }, options: {}, extensions: ["permit-port-forwarding"] },
  {
    name: "a sealed bastion with terminal and source address",
    more: { bastion: true, pty: true, forceCommand: "gateway-shim bast", sourceAddress: "10.0.0.0/8" },
    options: { "force-command": "gateway-shim bast", "source-address": "10.0.0.0/8" },
    extensions: ["permit-port-forwarding", "permit-pty"],
  },
  {
    name: "a source address, verbatim",
    more: { sourceAddress: "10.0.0.1, ::1" },
    options: { "source-address": "10.0.0.1, ::1" },
    extensions: [],
  },
])("userCertificate() of $name", ({ more, options, extensions }) => {
  const fields = userCertificate({ ...input, ...more });
  assert.deepEqual(fields.criticalOptions, options);
  assert.deepEqual(fields.extensions, extensions);
});

Deno.test("userCertificate() refuses an empty principal", () => {
  assert.throws(
    () => userCertificate({ ...input, principal: "" }),
    (error) =>
      error instanceof AppError && error.code === "denied" && error.message === "principal is required",
  );
});

Deno.test.each([
  { name: "0 seconds", ttlSeconds: 0 },
  { name: "a negative lifetime", ttlSeconds: -1 },
  { name: "901 seconds", ttlSeconds: 901 },
  { name: "half a second", ttlSeconds: 0.5 },
  { name: "no number", ttlSeconds: NaN },
  { name: "forever", ttlSeconds: Infinity },
])("userCertificate() refuses $name", ({ ttlSeconds }) => {
  assert.throws(() => userCertificate({ ...input, ttlSeconds }), RangeError);
});

Deno.test.each([{ name: "1 second", ttlSeconds: 1 }, { name: "900 seconds", ttlSeconds: 900 }])(
  "userCertificate() accepts $name",
  ({ ttlSeconds }) => {
    assert.equal(userCertificate({ ...input, ttlSeconds }).validBefore, 1_700_000_000 + ttlSeconds);
  },
);
