import assert from "node:assert/strict";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  type Certificate,
  type CertificateFields,
  decodeCertificate,
  encodeOpensshPrivateKey,
  issueCertificate,
} from "@gateway/shared/ssh";
import { describeCertificate } from "./describe_certificate.ts";

const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const fields: CertificateFields = {
  publicKey: new Uint8Array(32).fill(2),
  nonce: new Uint8Array(32).fill(3),
  serial: 2n ** 64n - 1n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000",
  principals: ["host:web01"],
  validAfter: 1_699_999_970,
  validBefore: 1_700_000_120,
  criticalOptions: { "force-command": "uptime" },
  extensions: ["permit-pty", "login@example"],
};

async function issue(change: Partial<CertificateFields> = {}): Promise<Certificate> {
  return decodeCertificate(await issueCertificate({ ...fields, ...change }, ca));
}

// The output of TZ=UTC ssh-keygen -L -f x-cert.pub for this certificate.
Deno.test("describeCertificate() writes what ssh-keygen -L writes", async () => {
  assert.equal(
    describeCertificate(await issue(), { title: "x-cert.pub" }),
    `x-cert.pub:
        Type: ssh-ed25519-cert-v01@openssh.com user certificate
        Public key: ED25519-CERT SHA256:baqJQcVDEweKmw1OiZxGooCG2MGxYtwsQQzzOstxmiA
        Signing CA: ED25519 SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8 (using ssh-ed25519)
        Key ID: "agent=broker-1 host=web01 role=target t=1700000000"
        Serial: 18446744073709551615
        Valid: from 2023-11-14T22:12:50 to 2023-11-14T22:15:20
        Principals:${" "}
                host:web01
        Critical Options:${" "}
                force-command uptime
        Extensions:${" "}
                login@example UNKNOWN FLAG OPTION
                permit-pty
`,
  );
});

Deno.test.each([
  { name: "without end", change: { validBefore: Infinity }, shown: "after 2023-11-14T22:12:50" },
  { name: "without beginning", change: { validAfter: 0 }, shown: "before 2023-11-14T22:15:20" },
  { name: "without both", change: { validAfter: 0, validBefore: Infinity }, shown: "forever" },
  {
    name: "of the year 10000",
    change: { validBefore: 253_402_300_800 },
    shown: "from 2023-11-14T22:12:50 to @253402300800",
  },
  {
    name: "beyond what a Date holds",
    change: { validBefore: Number.MAX_SAFE_INTEGER },
    shown: "from 2023-11-14T22:12:50 to @9007199254740991",
  },
])("describeCertificate() shows a validity $name", async ({ change, shown }) => {
  assert.ok(describeCertificate(await issue(change)).includes(`        Valid: ${shown}\n`));
});

Deno.test("no value steers the terminal or fakes a line", async () => {
  const hostile = "a\x1b[2J\n        Serial: 1\u202e\x9b";
  const text = describeCertificate(
    await issue({
      keyId: hostile,
      principals: [hostile],
      criticalOptions: { "force-command": hostile, [hostile]: "x" },
      extensions: [hostile],
    }),
    { title: hostile },
  );
  assert.equal(text.match(/^ {8}Serial: /gm)?.length, 1);
  assert.match(text, /^[^\p{Cf}]*$/u);
  assert.match(text.replaceAll("\n", ""), /^\P{Cc}*$/u);
  assert.equal(text.split(String.raw`a\x1b[2J\x0a        Serial: 1\u{202e}\x9b`).length, 7);
});
