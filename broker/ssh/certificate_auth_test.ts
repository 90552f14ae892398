import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  encodeOpensshPrivateKey,
  formatCertificate,
  issueCertificate,
  parseEd25519PublicKey,
} from "@gateway/shared/ssh";
import {
  createEphemeralKey,
  type EphemeralKey,
  parseCertificateFor,
  presentCertificate,
} from "./certificate_auth.ts";
import { loadSsh2, type Ssh2Client } from "./ssh2_library.ts";
import { sessionIdOf } from "./ssh2_protocol.ts";

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

Deno.test("parseCertificateFor() gives the certificate's bytes", async () => {
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
  { name: "that is cut off", line: good.trim().slice(0, -8) },
  { name: "followed by another", line: good + good },
])("parseCertificateFor() refuses a certificate $name", ({ line }) => {
  assert.throws(() => parseCertificateFor(key, line), {
    code: "upstream_failure",
    message: "connection: certificate is not usable",
  });
});

/** A client on a connection to nowhere. */
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

Deno.test("presentCertificate() refuses an ssh2 that looks different inside", async (t) => {
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

Deno.test("presentCertificate() sends nothing before the key exchange, and nothing for another user", async () => {
  const library = await loadSsh2();
  const client = await connecting();
  const authentication = presentCertificate(client, library, login);
  const protocol = Reflect.get(client, "_protocol");
  assert.throws(() => protocol.authNone("root"), TypeError);
  assert.throws(() => protocol.authNone("other"), TypeError);
  assert.throws(() => sessionIdOf(protocol), TypeError);
  assert.equal(authentication.presented, false);
});
