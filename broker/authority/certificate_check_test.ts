import assert from "node:assert/strict";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  type CertificateFields,
  encodeOpensshPrivateKey,
  formatCertificate,
  issueCertificate,
  parseEd25519PublicKey,
} from "@gateway/shared/ssh";
import { createEphemeralKey } from "../ssh/login.ts";
import { checkCertificate } from "./remote.ts";

const SERIAL = 18446744073709551615n;
const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const key = createEphemeralKey();
const otherKey = createEphemeralKey();

async function issue(changes: Partial<CertificateFields> = {}): Promise<string> {
  const blob = await issueCertificate({
    publicKey: parseEd25519PublicKey(key.publicKeyLine),
    nonce: new Uint8Array(32),
    serial: SERIAL,
    keyId: "agent=broker-1 host=web01",
    principals: ["host:web01"],
    validAfter: 1_700_000_000,
    validBefore: 1_700_000_120,
    criticalOptions: { "force-command": "uptime" },
    extensions: [],
    ...changes,
  }, ca);
  return formatCertificate(blob);
}

const expected = { publicKey: key.publicKeyLine, serial: SERIAL, use: "command", host: "web01" } as const;

Deno.test("checkCertificate() accepts the certificate that was asked for", async () => {
  checkCertificate(await issue(), expected);
});

Deno.test.each([
  {
    name: "another key",
    changes: { publicKey: parseEd25519PublicKey(otherKey.publicKeyLine) },
    message: "signing service returned a certificate with another public key",
  },
  {
    name: "a serial that differs in its last bit",
    changes: { serial: SERIAL - 1n },
    message: "signing service returned a certificate with another serial",
  },
  {
    name: "no force-command",
    changes: { criticalOptions: { "source-address": "10.0.0.0/8" } },
    message: "signing service returned a certificate with no force-command",
  },
])("checkCertificate() refuses a certificate with $name", async ({ changes, message }) => {
  const line = await issue(changes);
  assert.throws(() => checkCertificate(line, expected), { code: "upstream_failure", message });
});

Deno.test.each([
  { name: "nothing", line: "" },
  { name: "a plain key", line: key.publicKeyLine },
  { name: "something else", line: "ssh-ed25519-cert-v01@openssh.com AAAA" },
])("checkCertificate() refuses $name in place of a certificate", ({ line }) => {
  assert.throws(() => checkCertificate(line, expected), {
    code: "upstream_failure",
    message: "signing service returned an unreadable certificate",
  });
});

Deno.test.each([
  ["no shim", {}, undefined],
  ["the shim of its host", { "force-command": "gateway-shim web01" }, "gateway-shim"],
  ["another build's shim", { "force-command": "/opt/x/shim web01" }, "/opt/x/shim"],
])("checkCertificate() finds %s in a session's certificate", async (_name, criticalOptions, shim) => {
  const line = await issue({ criticalOptions });
  assert.deepEqual(checkCertificate(line, { ...expected, use: "session" }), shim);
});

Deno.test.each(
  [
    { name: "of a session without force-command", use: "session", changes: { criticalOptions: {} } },
    {
      name: "of a bastion that permits forwarding alone",
      use: "forwarding",
      changes: { criticalOptions: {}, extensions: ["permit-port-forwarding"] },
    },
  ] as const,
)("checkCertificate() accepts a certificate $name", async ({ use, changes }) => {
  checkCertificate(await issue(changes), { ...expected, use });
});

Deno.test.each(
  [
    {
      name: "of a session that is locked to a command",
      use: "session",
      changes: {},
      what: "a force-command for a session",
    },
    ...["gateway-shim", "gateway-shim web02", "gateway-shim web01 id", "sh -c web01", " web01"].map((
      forced,
    ) => ({
      name: `of a session that is locked to '${forced}'`,
      use: "session" as const,
      changes: { criticalOptions: { "force-command": forced } },
      what: "a force-command for a session",
    })),
    {
      name: "of a bastion that permits nothing",
      use: "forwarding",
      changes: { criticalOptions: {} },
      what: "other permissions than a bastion's",
    },
    {
      name: "of a bastion that permits a terminal too",
      use: "forwarding",
      changes: { criticalOptions: {}, extensions: ["permit-port-forwarding", "permit-pty"] },
      what: "other permissions than a bastion's",
    },
  ] as const,
)("checkCertificate() refuses a certificate $name", async ({ use, changes, what }) => {
  const line = await issue(changes);
  const message = `signing service returned a certificate with ${what}`;
  assert.throws(() => checkCertificate(line, { ...expected, use }), { code: "upstream_failure", message });
});
