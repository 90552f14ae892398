import assert from "node:assert/strict";
import { parseHostAddress } from "./connect.ts";
import { AppError, describeFault } from "@gateway/shared/errors";
import {
  atAddress,
  atBastion,
  canceled,
  connectionFailure,
  executionFailure,
  failureClassOf,
  forwardFailure,
  socketFailure,
} from "./failures.ts";
import { Duplex } from "node:stream";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  encodeOpensshPrivateKey,
  formatCertificate,
  formatPublicKey,
  issueCertificate,
  parseEd25519PublicKey,
  parsePublicKey,
} from "@gateway/shared/ssh";
import {
  createEphemeralKey,
  type EphemeralKey,
  parseCertificateFor,
  parseHostPin,
  presentCertificate,
} from "./login.ts";
import { loadSsh2, sessionIdOf, type Ssh2Client } from "./ssh2_library.ts";
import { createPublicKey, verify } from "node:crypto";
import { inspect } from "node:util";

Deno.test.each([
  { addr: "10.0.0.21:22", hostname: "10.0.0.21", port: 22 },
  { addr: "web01.example.com:2222", hostname: "web01.example.com", port: 2222 },
  { addr: "[::1]:22", hostname: "::1", port: 22 },
  { addr: "[fe80::1%eth0]:65535", hostname: "fe80::1%eth0", port: 65535 },
])("parseHostAddress() parses $addr", ({ addr, ...address }) => {
  assert.deepEqual(parseHostAddress(addr), address);
});

Deno.test.each(
  [
    "",
    "web01",
    ":22",
    "web01:",
    "web01:0",
    "web01:65536",
    "web01:22x",
    "::1:22",
    "[::1]",
    "a b:22",
    "[web01]:22",
  ]
    .map((addr) => ({ addr })),
)("parseHostAddress() rejects '$addr' without repeating it", ({ addr }) => {
  assert.throws(() => parseHostAddress(addr), {
    code: "upstream_failure",
    message: "connection: host address is not host:port",
  });
});

const failed = (code: string) =>
  Object.assign(new Error(`connect ${code} 10.0.0.21:22`), { code, address: "10.0.0.21", port: 22 });

Deno.test.each([
  { error: failed("ECONNREFUSED"), text: "connection: connection refused" },
  { error: failed("ECONNRESET"), text: "connection: connection reset by the host" },
  { error: failed("EHOSTUNREACH"), text: "connection: host unreachable" },
  { error: failed("ENETUNREACH"), text: "connection: network unreachable" },
  { error: failed("ENOTFOUND"), text: "connection: host name not found" },
  { error: failed("ETIMEDOUT"), text: "connection: connect timeout" },
  { error: failed("EMFILE"), text: "connection: connect failed" },
  { error: failed("constructor"), text: "connection: connect failed" },
  { error: new Error("10.0.0.21"), text: "connection: connect failed" },
  { error: "10.0.0.21", text: "connection: connect failed" },
  {
    error: new Deno.errors.NotCapable('Requires net access to "10.0.0.21:22"'),
    text: "connection: this broker must not connect to the host's address (networks in its config)",
  },
])("socketFailure() returns '$text' and keeps the address only for the log (I19)", ({ error, text }) => {
  const failure = socketFailure(error);
  assert.equal(failure.code, "upstream_failure");
  assert.equal(failure.message, text);
  assert.equal(failure.cause, error);
});

Deno.test.each([
  { reason: 1, text: "connection: the bastion does not permit the connection to the next host" },
  { reason: 2, text: "connection: the bastion could not connect to the next host" },
  { reason: 4, text: "connection: the bastion did not connect to the next host" },
  { reason: undefined, text: "connection: the bastion did not connect to the next host" },
])("forwardFailure() returns '$text' and logs the bastion's own text (I19)", ({ reason, text }) => {
  const error = Object.assign(new Error("10.0.0.21: No route to host"), { reason });
  const failure = forwardFailure(error);
  assert.deepEqual([failure.code, failure.message, failure.cause], ["upstream_failure", text, error]);
});

Deno.test.each([
  { hostname: "10.0.0.21", said: "connecting to 10.0.0.21:22: no answer" },
  { hostname: "fd00::1", said: "connecting to [fd00::1]:22: no answer" },
])("atAddress() adds '$said' to the log and leaves the agent's text unchanged", ({ hostname, said }) => {
  const error = connectionFailure("connect timeout", new Error("no answer"), "timeout");
  const named = atAddress({ hostname, port: 22 }, error);
  assert.ok(named instanceof Error);
  assert.equal(named.message, "connection: connect timeout");
  assert.equal(failureClassOf(named), "timeout");
  assert.equal(describeFault(named), `connection: connect timeout: ${said}`);
  const gone = canceled("connection", "gone");
  assert.equal(atAddress({ hostname, port: 22 }, gone), gone);
});

Deno.test("atBastion() adds the bastion to a failed connection and keeps code and cause", () => {
  const cause = new Error("10.0.0.21");
  for (const error of [connectionFailure("SSH handshake timeout", cause), canceled("connection", cause)]) {
    const named = atBastion('edge"1', error);
    assert.ok(named instanceof Error);
    assert.equal(
      named.message,
      error.message.replace("connection: ", String.raw`connection: bastion "edge\"1": `),
    );
    assert.equal(Reflect.get(named, "code"), error.code);
    assert.equal(named.cause, cause);
  }
});

Deno.test("atBastion() returns other errors unchanged", () => {
  for (const error of [executionFailure("x"), new TypeError("x")]) {
    assert.equal(atBastion("edge", error), error);
  }
});

const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));

async function certify(key: EphemeralKey): Promise<string> {
  const blob = await issueCertificate({
    publicKey: parseEd25519PublicKey(key.publicKeyLine),
    nonce: new Uint8Array(32),
    serial: 7n,
    keyId: "test",
    principals: ["host:web01"],
    validAfter: 0,
    validBefore: Infinity,
    criticalOptions: {},
    extensions: [],
  }, ca);
  return formatCertificate(blob);
}

Deno.test("parseCertificateFor() returns the certificate's bytes", async () => {
  const key = createEphemeralKey();
  const line = await certify(key);
  assert.equal(formatCertificate(parseCertificateFor(key, line)), line);
  assert.equal(formatCertificate(parseCertificateFor(key, line.trim())), line);
});

const key = createEphemeralKey();
const good = await certify(key);

Deno.test.each([
  { name: "for another key", line: await certify(createEphemeralKey()) },
  { name: "that is a plain key", line: key.publicKeyLine },
  { name: "that is empty", line: "" },
  { name: "that is truncated", line: good.trim().slice(0, -8) },
  { name: "followed by another", line: good + good },
])("parseCertificateFor() rejects a certificate $name", ({ line }) => {
  assert.throws(() => parseCertificateFor(key, line), {
    code: "upstream_failure",
    message: "connection: certificate is not usable",
  });
});

/** A client whose connection has no peer. */
async function connecting(): Promise<Ssh2Client> {
  const { Client } = await loadSsh2();
  const client = new Client();
  client.connect({
    sock: new Duplex({ read() {}, write: (_c, _e, done) => done() }),
    username: "root",
    readyTimeout: 0,
  });
  return client;
}

const login = { user: "root", certificate: parseCertificateFor(key, good), key };

Deno.test("presentCertificate() rejects an ssh2 version with different internals", async (t) => {
  const library = await loadSsh2();
  assert.throws(
    () => presentCertificate(new library.Client(), library, login),
    /_protocol is not as in 1\.17\.0/,
  );
  for (const name of ["authNone", "signal", "_authsQueue", "_packetRW"]) {
    await t.step(`without ${name}`, async () => {
      const client = await connecting();
      Reflect.set(Reflect.get(client, "_protocol"), name, undefined);
      assert.throws(() => presentCertificate(client, library, login), TypeError);
    });
  }
});

Deno.test("presentCertificate() sends nothing before the key exchange or for another user", async () => {
  const library = await loadSsh2();
  const client = await connecting();
  const authentication = presentCertificate(client, library, login);
  const protocol = Reflect.get(client, "_protocol");
  assert.throws(() => protocol.authNone("root"), TypeError);
  assert.throws(() => protocol.authNone("other"), TypeError);
  assert.throws(() => sessionIdOf(protocol), TypeError);
  assert.equal(authentication.presented, false);
});

Deno.test("createEphemeralKey() signs with the private key of the returned public key", () => {
  const key = createEphemeralKey();
  const x = parseEd25519PublicKey(key.publicKeyLine).toBase64({ alphabet: "base64url", omitPadding: true });
  const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const data = Uint8Array.of(1, 2, 3);
  assert.ok(verify(null, data, publicKey, key.sign(data)));
  assert.equal(key.sign(data).length, 64);
});

Deno.test("createEphemeralKey() creates a different key on each call", () => {
  assert.notEqual(createEphemeralKey().publicKeyLine, createEphemeralKey().publicKeyLine);
});

Deno.test("createEphemeralKey() exposes no private key in JSON or inspect()", () => {
  const key = createEphemeralKey();
  assert.deepEqual(JSON.parse(JSON.stringify(key)), { publicKeyLine: key.publicKeyLine });
  assert.doesNotMatch(inspect(key, { depth: null, showHidden: true }), /private/i);
});

const line = createEphemeralKey().publicKeyLine;
const { blob } = parsePublicKey(line);

Deno.test.each([
  ["authorized_keys", line],
  ["authorized_keys with comment and newline", `${line} root@web01\n`],
  ["known_hosts", `[web01.example.com]:2222,10.0.0.1 ${line}`],
  ["ssh-keyscan with its comment", `# web01.example.com:22 SSH-2.0-OpenSSH_9.2\nweb01 ${line}\n`],
])("parseHostPin() parses a line of %s", (_name, text) => {
  const pin = parseHostPin(text, "web01");
  assert.deepEqual(pin.algorithms, ["ssh-ed25519"]);
  assert.ok(pin.matches(blob));
});

Deno.test("parseHostPin() matches only the same bytes", () => {
  const pin = parseHostPin(line, "web01");
  const other = blob.slice();
  other[other.length - 1] = (other.at(-1) ?? 0) ^ 1;
  assert.ok(!pin.matches(other));
  assert.ok(!pin.matches(blob.subarray(0, -1)));
  assert.ok(!pin.matches(new Uint8Array([...blob, 0])));
  assert.ok(!pin.matches(new Uint8Array(0)));
});

Deno.test.each([
  { name: "nothing", text: "" },
  { name: "white space", text: " \n" },
  { name: "a comment only", text: "# none yet" },
  { name: "a truncated key", text: line.slice(0, -8) },
  { name: "a type that differs from the key's type", text: formatPublicKey("ssh-rsa", blob) },
  { name: "two keys", text: `${line}\n${createEphemeralKey().publicKeyLine}` },
  { name: "a marker", text: `@cert-authority * ${line}` },
  { name: "a fingerprint", text: "SHA256:n95OCUO6+kyqSXipnPy/uKPWwz3FER8bfxF/KzYC/Kk" },
])("parseHostPin() rejects $name", ({ text }) => {
  assert.throws(() => parseHostPin(text, "web01"), (error: unknown) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "upstream_failure");
    assert.equal(error.message, 'connection: host key for "web01": parsing host key failed');
    return true;
  });
});
