import { parsePemCaKey } from "../ca/pem.ts";
import {
  type CertificateFields,
  decodeCertificate,
  issueCertificate,
  verifyCertificateSignature,
} from "./certificate.ts";
import { encodeOpensshPrivateKey } from "./openssh_key.ts";

const ca = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
const fields: CertificateFields = {
  publicKey: new Uint8Array(32).fill(2),
  nonce: new Uint8Array(32).fill(3),
  serial: 2n ** 64n - 1n,
  keyId: "agent=broker-1 host=web01 role=target t=1700000000 user=alice elev=sudo -n",
  principals: ["host:web01"],
  validAfter: 1_699_999_970,
  validBefore: 1_700_000_120,
  criticalOptions: { "force-command": "sudo -n -- systemctl restart nginx", "source-address": "10.0.0.0/8" },
  extensions: [],
};
const blob = await issueCertificate(fields, ca);

Deno.bench("issueCertificate() with an Ed25519 CA", async () => {
  await issueCertificate(fields, ca);
});

Deno.bench("decodeCertificate()", () => {
  decodeCertificate(blob);
});

Deno.bench("decodeCertificate() and verifyCertificateSignature()", () => {
  verifyCertificateSignature(decodeCertificate(blob));
});
