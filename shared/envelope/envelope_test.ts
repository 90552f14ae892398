import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { FixedRandom } from "../testing/fixed_random.ts";
import { signSshsig } from "../ssh/keys.ts";
import { SshReader } from "../ssh/wire_format.ts";
import {
  allowedSignersLine,
  createEnvelopeKey,
  encodeEnvelope,
  ENVELOPE_DOMAIN,
  ENVELOPE_NAMESPACES,
  type EnvelopeFormat,
  envelopePublicKeyText,
  envelopeSignersLine,
  isSealable,
  mintEnvelope,
} from "./mod.ts";

const key = createEnvelopeKey(new Uint8Array(32).fill(1));
const V1: EnvelopeFormat = { version: "v1", domain: ENVELOPE_DOMAIN };
const V2: EnvelopeFormat = { version: "v2" };
const V3: EnvelopeFormat = { version: "v3" };
const SAMPLE = {
  nonce: "000102030405060708090a0b0c0d0e0f",
  host: "web01",
  command: "sudo -n -- systemctl restart nginx",
  stdin: "none",
  expiresAt: 1_700_000_030,
};

/** From reference-signer.md, section 16. */
const V1_WIRE =
  "eyJuIjoiMDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYiLCJoIjoid2ViMDEiLCJjIjoic3VkbyAtbiAtLSBzeXN0ZW1jdGwgcmVzdGFydCBuZ2lueCIsImUiOjE3MDAwMDAwMzAsInMiOiJsNXREUEE4cWtJdG45eElTd0tmaDZQalR0S25TalE1U2ZYUDg3YitzTlhaTGIvbnczNXVkU3lxeExvQ1FRU0d0NHp2MnBrSmh1NzQ3L3pzVUhFUUdBQT09In0";

/** The v2 signature is that of `ssh-keygen -Y sign -n gateway-sealed-exec-v2`. Ed25519 is deterministic. */
const V2_WIRE =
  "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGYKd2ViMDEKMTcwMDAwMDAzMApzdWRvIC1uIC0tIHN5c3RlbWN0bCByZXN0YXJ0IG5naW54.U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1wAAAAWZ2F0ZXdheS1zZWFsZWQtZXhlYy12MgAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gtZWQyNTUxOQAAAEABcErj4cW1T_ggjETEpIxoWhqIvN0UCfcaaNf8_FVO4VpxxatYwIHcSbsP02PJUgEGzVOMgrG1Z3LcjtWmXRwL";

Deno.test("v1 equals the reference's test vector", () => {
  assert.equal(encodeEnvelope(SAMPLE, key, V1), V1_WIRE);
});

Deno.test("v1 with another build's domain differs only in its signature", () => {
  const ours = JSON.parse(decode(V1_WIRE));
  const theirs = JSON.parse(decode(encodeEnvelope(SAMPLE, key, { version: "v1", domain: "other-exec-v1" })));
  assert.notEqual(theirs.s, ours.s);
  assert.deepEqual({ ...theirs, s: "" }, { ...ours, s: "" });
});

Deno.test("v1 signs lengths in bytes, not in characters", () => {
  const { c, e, h, n, s } = JSON.parse(decode(encodeEnvelope({ ...SAMPLE, command: "echo é😀" }, key, V1)));
  const signed = [`${ENVELOPE_DOMAIN}\0`, ...[n, h, c, `${e}`].flatMap((field) => [lengthOf(field), field])];
  const bytes = signed.flatMap((part) =>
    typeof part === "string" ? [...new TextEncoder().encode(part)] : part
  );
  assert.ok(verify(null, Uint8Array.from(bytes), publicKey(), Uint8Array.fromBase64(s)));
});

Deno.test("v2 equals the stored sample", () => {
  assert.equal(encodeEnvelope(SAMPLE, key, V2), V2_WIRE);
});

Deno.test("v2 contains nonce, host, expiry and the unchanged command, each on a line", () => {
  const [message = ""] = encodeEnvelope({ ...SAMPLE, command: "printf a\nprintf b\n\n" }, key, V2).split(".");
  assert.equal(decode(message), `${SAMPLE.nonce}\nweb01\n1700000030\nprintf a\nprintf b\n\n`);
});

Deno.test.each([{ stdin: "none" }, { stdin: "watch" }, { stdin: "ab".repeat(32) }])(
  "v3 holds the stdin $stdin on a line before the command",
  ({ stdin }) => {
    const [prefix, message = ""] = encodeEnvelope({ ...SAMPLE, stdin, command: "a\nb" }, key, V3).split(".");
    assert.equal(prefix, "v3");
    assert.equal(decode(message), `${SAMPLE.nonce}\nweb01\n1700000030\n${stdin}\na\nb`);
  },
);

Deno.test.each([{ stdin: "" }, { stdin: "any" }, { stdin: "AB".repeat(32) }, { stdin: "none\nid" }])(
  "an envelope is not made for the stdin '$stdin'",
  ({ stdin }) => {
    assert.throws(() => encodeEnvelope({ ...SAMPLE, stdin }, key, V3), TypeError);
  },
);

Deno.test("v2 contains no character that a plain shell could read as an assignment", () => {
  for (let length = 1; length < 8; length++) {
    const envelope = encodeEnvelope({ ...SAMPLE, command: "x".repeat(length) }, key, V2);
    assert.doesNotMatch(envelope, /[^A-Za-z0-9_.-]/);
  }
});

Deno.test("v2 names the namespace and the key of its signature", () => {
  const [, signature = ""] = encodeEnvelope(SAMPLE, key, V2).split(".");
  const reader = new SshReader(Uint8Array.fromBase64(signature, { alphabet: "base64url" }));
  assert.equal(new TextDecoder().decode(reader.raw(6)), "SSHSIG");
  assert.equal(reader.u32(), 1);
  assert.deepEqual(reader.string(), key.ssh.publicKey);
  assert.equal(reader.text(), "gateway-sealed-exec-v2");
  assert.equal(reader.text(), "");
  assert.equal(reader.text(), "sha512");
});

Deno.test("signMessage() equals signSshsig() for every message and keeps earlier signatures intact", () => {
  const versions = ["v2", "v3", "v2"] as const;
  const messages = ["one", "another", "one"].map((text) => new TextEncoder().encode(text));
  const signatures = messages.map((message, index) => key.signMessage(message, versions[index]!));
  for (const [index, message] of messages.entries()) {
    const namespace = ENVELOPE_NAMESPACES[versions[index]!];
    assert.deepEqual(signatures[index], signSshsig(key.ssh, namespace, message));
  }
});

Deno.test("mintEnvelope() uses a new 16-byte nonce and an expiry of 30 seconds", () => {
  const random = new FixedRandom();
  const options = { key, format: V1, now: 1_700_000_000_999, random };
  const mint = () => mintEnvelope({ host: "web01", command: "id", stdin: "none" }, options);
  const [first, second] = [JSON.parse(decode(mint())), JSON.parse(decode(mint()))];
  assert.match(first.n, /^[0-9a-f]{32}$/);
  assert.notEqual(first.n, second.n);
  assert.equal(first.e, 1_700_000_030);
});

Deno.test.each([{ ttlSeconds: 0 }, { ttlSeconds: -1 }, { ttlSeconds: 301 }, { ttlSeconds: NaN }])(
  "mintEnvelope() rejects a lifetime of $ttlSeconds seconds",
  ({ ttlSeconds }) => {
    const options = { key, format: V2, now: 0, random: new FixedRandom(), ttlSeconds };
    assert.throws(() => mintEnvelope({ host: "web01", command: "id", stdin: "none" }, options), RangeError);
  },
);

Deno.test.each([
  { name: "no command", command: "" },
  { name: "a NUL", command: "id\0 && reboot" },
  { name: "half a surrogate pair", command: "echo \ud800" },
])("encodeEnvelope() rejects $name", ({ command }) => {
  assert.equal(isSealable(command), false);
  for (const format of [V1, V2]) {
    assert.throws(() => encodeEnvelope({ ...SAMPLE, command }, key, format), TypeError);
  }
});

Deno.test("encodeEnvelope() rejects a host name with a newline", () => {
  assert.throws(() => encodeEnvelope({ ...SAMPLE, host: "web01\nweb02" }, key, V2), TypeError);
});

Deno.test.each([{ length: 0 }, { length: 31 }, { length: 33 }, { length: 64 }])(
  "createEnvelopeKey() rejects a seed of $length bytes",
  ({ length }) => {
    assert.throws(() => createEnvelopeKey(new Uint8Array(length)), { code: "invalid_config" });
  },
);

Deno.test("the public key is formatted for v1 hosts and as allowed_signers lines", () => {
  assert.equal(envelopePublicKeyText(key), "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=");
  assert.equal(
    allowedSignersLine(key, ["gateway-sealed-exec-v2", "gateway-krl-v1"]),
    'signer namespaces="gateway-sealed-exec-v2,gateway-krl-v1" ssh-ed25519 ' +
      "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
  );
  const line = /^signer namespaces="gateway-sealed-exec-v2,gateway-sealed-exec-v3" ssh-ed25519 /;
  assert.match(envelopeSignersLine(key), line);
});

function decode(base64url: string): string {
  return new TextDecoder().decode(Uint8Array.fromBase64(base64url, { alphabet: "base64url" }));
}

function lengthOf(field: string): number[] {
  return [0, 0, 0, 0, 0, 0, 0, new TextEncoder().encode(field).length];
}

function publicKey() {
  const x = key.publicKey.toBase64({ alphabet: "base64url", omitPadding: true });
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}
