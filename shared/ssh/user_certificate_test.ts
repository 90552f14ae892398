import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { formatKeyId, type KeyIdParts, userCertificate, type UserCertificateInput } from "./certificate.ts";

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

const parts: KeyIdParts = { caller: "broker-1", host: "web01", role: "target", issuedAt: 1_700_000_000 };

Deno.test.each([
  { name: "the required values", more: {}, tail: "" },
  { name: "empty optional values", more: { endUser: "", elevationPrefix: "", pty: false }, tail: "" },
  { name: "an end user", more: { endUser: "alice@example" }, tail: " user=alice@example" },
  { name: "an elevation", more: { elevationPrefix: "sudo -n" }, tail: " elev=sudo -n" },
  { name: "a terminal", more: { pty: true }, tail: " pty=1" },
  {
    name: "all of them in order",
    more: { pty: true, elevationPrefix: "sudo -n -u deploy", endUser: "alice" },
    tail: " user=alice elev=sudo -n -u deploy pty=1",
  },
])("formatKeyId() writes $name", ({ more, tail }) => {
  assert.equal(
    formatKeyId({ ...parts, ...more }),
    `agent=broker-1 host=web01 role=target t=1700000000${tail}`,
  );
});

Deno.test.each([
  { name: "an empty caller", more: { caller: "" } },
  { name: "an empty host", more: { host: "" } },
  { name: "an empty role", more: { role: "" } },
  { name: "a caller with a blank", more: { caller: "a user=root" } },
  { name: "a host with a tab", more: { host: "a\tb" } },
  { name: "a role with a line end (L14)", more: { role: "target\n" } },
  { name: "an end user with a blank", more: { endUser: "alice pty=1" } },
  { name: "an end user with a no-break space", more: { endUser: "alice\u00a0pty=1" } },
  { name: "an end user with a C1 control (L14)", more: { endUser: "a\u009b2J" } },
  { name: "an end user with a line separator", more: { endUser: "a\u2028b" } },
  { name: "an end user with DEL", more: { endUser: "a\x7f" } },
  { name: "an elevation with a line end", more: { elevationPrefix: "sudo -n\nx" } },
])("formatKeyId() refuses $name", ({ more }) => {
  assert.throws(() => formatKeyId({ ...parts, ...more }), TypeError);
});

Deno.test.each([{ name: "milliseconds", issuedAt: 1.5 }, { name: "a negative time", issuedAt: -1 }, {
  name: "no number",
  issuedAt: NaN,
}])("formatKeyId() refuses $name", ({ issuedAt }) => {
  assert.throws(() => formatKeyId({ ...parts, issuedAt }), RangeError);
});
