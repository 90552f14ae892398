import assert from "node:assert/strict";
import fc from "fast-check";
import { AppError } from "../errors.ts";
import {
  decodeKeyBlob,
  ECDSA_CURVES,
  encodeKeyBlob,
  fingerprint,
  formatPublicKey,
  keyAlgorithm,
  type KeyParts,
  parseEd25519PublicKey,
  parsePublicKey,
} from "./keys.ts";
import { SshWriter } from "./wire_format.ts";

// ssh-keygen -t ed25519, ssh-keygen -t ecdsa -b 256
const ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const LINE = `ssh-ed25519 ${ED25519}`;
const ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBIdWSmG9yU4ES64fQuyo" +
  "QFGwd/o9IfXTbBW/YfU+tn1fEW3+pXDzMm+kcm42IHk8fYclpAK2nNuboKTmO50aIN4=";
const CERTIFICATE = `ssh-ed25519-cert-v01@openssh.com ${
  new SshWriter().text("ssh-ed25519-cert-v01@openssh.com").string(new Uint8Array(32)).bytes().toBase64()
}`;

Deno.test.each([
  { name: "a bare key", text: LINE, comment: "" },
  { name: "a comment", text: `${LINE} root@web01`, comment: "root@web01" },
  { name: "a comment with blanks", text: `${LINE} of the  host`, comment: "of the host" },
  { name: "a line end", text: `${LINE} c\n`, comment: "c" },
  { name: "a DOS line end", text: `${LINE} c\r\n`, comment: "c" },
  { name: "blanks around it", text: `  \t${LINE}  `, comment: "" },
  { name: "tabs between the fields", text: LINE.replace(" ", "\t"), comment: "" },
  { name: "a keyscan line", text: `web01.example ${LINE}`, comment: "" },
  {
    name: "a known_hosts line with a port",
    text: `[web01.example]:2222,[10.0.0.1]:2222 ${LINE} c`,
    comment: "c",
  },
  { name: "a hashed known_hosts line", text: `|1|GQ8=|ab+/= ${LINE}`, comment: "" },
  {
    name: "keyscan output",
    text: `\n# web01:22 SSH-2.0-OpenSSH_9.2p1\n\nweb01 ${LINE}\n# end\n`,
    comment: "",
  },
])("parsePublicKey() reads $name", ({ text, comment }) => {
  const key = parsePublicKey(text);
  assert.equal(key.algorithm, "ssh-ed25519");
  assert.equal(key.blob.toBase64(), ED25519);
  assert.equal(key.comment, comment);
});

Deno.test("parsePublicKey() reads an ECDSA key", () => {
  assert.equal(parsePublicKey(ECDSA).algorithm, "ecdsa-sha2-nistp256");
});

Deno.test.each([
  { name: "nothing", text: "", message: /there is none/ },
  { name: "comments only", text: "# a\n\n  # b", message: /there is none/ },
  { name: "two keys", text: `${LINE}\n${ECDSA}`, message: /more than one line/ },
  { name: "a revoked key", text: `@revoked web01 ${LINE}`, message: /marker/ },
  { name: "a certificate authority", text: `@cert-authority *.example ${LINE}`, message: /marker/ },
  { name: "two fields before the key", text: `a b ${LINE}`, message: /supported key type/ },
  { name: "a certificate", text: CERTIFICATE, message: /supported key type/ },
  { name: "a certificate after a host", text: `web01 ${CERTIFICATE}`, message: /supported key type/ },
  { name: "a DSA key", text: "ssh-dss AAAAB3NzaC1kc3M=", message: /supported key type/ },
  { name: "a type without key", text: "ssh-ed25519", message: /not base64/ },
  {
    name: "another type inside",
    text: ECDSA.replace("ecdsa-sha2-nistp256", "ssh-ed25519"),
    message: /line holds/,
  },
  { name: "base64 without padding", text: ECDSA.slice(0, -1), message: /not canonical/ },
  { name: "base64 with stray bits", text: ECDSA.replace("N4=", "N5="), message: /not canonical/ },
  { name: "base64url", text: LINE.replace("/", "_"), message: /not base64/ },
  { name: "a vertical tab inside base64", text: LINE.replace("AAAAC3", "AAAA\vC3"), message: /not base64/ },
  { name: "a key cut short", text: LINE.slice(0, -4), message: /truncated/ },
  { name: "a key with trailing bytes", text: `${LINE}AAAA`, message: /too many/ },
])("parsePublicKey() refuses $name", ({ text, message }) => {
  assert.throws(
    () => parsePublicKey(text),
    (error) => error instanceof AppError && error.code === "invalid_request" && message.test(error.message),
  );
});

Deno.test.each([
  { name: "a bare key", line: LINE },
  { name: "a comment", line: `${LINE} broker session é` },
  { name: "a line end", line: `${LINE}\n` },
  { name: "a comment and a line end", line: `${LINE} c\r\n` },
])("parseEd25519PublicKey() reads $name", ({ line }) => {
  assert.equal(
    parseEd25519PublicKey(line).toBase64(),
    "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=",
  );
});

const notEd25519 = encodeKeyBlob({ kind: "rsa", exponent: Uint8Array.of(3), modulus: Uint8Array.of(9) });
Deno.test.each([
  { name: "nothing", line: "" },
  { name: "a leading blank", line: ` ${LINE}` },
  { name: "a leading line end", line: `\n${LINE}` },
  { name: "two line ends", line: `${LINE}\n\n` },
  { name: "a second line", line: `${LINE}\n${LINE}` },
  { name: "options", line: `no-pty ${LINE}` },
  { name: "a host name", line: `web01 ${LINE}` },
  { name: "two blanks", line: LINE.replace(" ", "  ") },
  { name: "a tab", line: LINE.replace(" ", "\t") },
  { name: "a control character in the comment", line: `${LINE} a\x1b[2J` },
  { name: "a carriage return in the comment", line: `${LINE} a\rb` },
  { name: "a certificate", line: CERTIFICATE },
  { name: "a certificate under the type of a key", line: CERTIFICATE.replace("-cert-v01@openssh.com", "") },
  { name: "an ECDSA key", line: ECDSA },
  { name: "an RSA key under the type", line: `ssh-ed25519 ${notEd25519.toBase64()}` },
  { name: "trailing bytes", line: `${LINE}AAAA` },
  { name: "stray bits", line: `${LINE.slice(0, -3)}9d=` },
])("parseEd25519PublicKey() refuses $name", ({ line }) => {
  assert.throws(() => parseEd25519PublicKey(line), (error) => {
    assert.ok(error instanceof AppError && error.cause instanceof AppError);
    assert.equal(error.code, "invalid_request");
    assert.equal(error.message, "invalid pubkey");
    return true;
  });
});

Deno.test("fingerprint() is that of ssh-keygen -l", () => {
  assert.equal(fingerprint(parsePublicKey(LINE).blob), "SHA256:fe85JkIjo8VPe+XqXJGH5Mau1EMFdK1OdKvJUFicyA8");
});

Deno.test("formatPublicKey() writes a line that is read back", () => {
  const key = parsePublicKey(LINE);
  assert.equal(formatPublicKey(key.algorithm, key.blob), LINE);
  assert.equal(formatPublicKey(key.algorithm, key.blob, "a b"), `${LINE} a b`);
  assert.throws(() => formatPublicKey(key.algorithm, key.blob, "a\nb"), TypeError);
});

Deno.test("any text is a key or an AppError", () => {
  const pieces = fc.constantFrom(
    LINE,
    ECDSA,
    ED25519,
    "ssh-ed25519",
    "ssh-rsa",
    " ",
    "\t",
    "\n",
    "#",
    "@",
    "=",
    "A",
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(pieces, fc.string())), (parts) => {
      for (const parse of [parsePublicKey, parseEd25519PublicKey]) {
        try {
          parse(parts.join(""));
        } catch (error) {
          assert.ok(error instanceof AppError, String(error));
        }
      }
    }),
  );
});

const [P256, , P521] = ECDSA_CURVES;
const point = (length: number, first = 4) => new Uint8Array(length).fill(7).with(0, first);
const number = (length: number) => new Uint8Array(length).fill(0xc5);

const PARTS: readonly (KeyParts & { readonly name: string })[] = [
  { name: "ssh-ed25519", kind: "ed25519", point: point(32) },
  { name: "ecdsa-sha2-nistp256", kind: "ecdsa", curve: P256, point: point(65) },
  { name: "ecdsa-sha2-nistp521", kind: "ecdsa", curve: P521, point: point(133) },
  { name: "ssh-rsa", kind: "rsa", exponent: Uint8Array.of(1, 0, 1), modulus: number(256) },
];

Deno.test.each(PARTS)("a key blob is written and read: $name", ({ name, ...parts }) => {
  assert.equal(keyAlgorithm(parts), name);
  assert.deepEqual(decodeKeyBlob(encodeKeyBlob(parts)), parts);
});

const ssh = () => new SshWriter();
Deno.test.each([
  { name: "nothing", blob: new Uint8Array(0) },
  { name: "an unknown type", blob: ssh().text("ssh-dss").string(point(32)).bytes() },
  {
    name: "a certificate",
    blob: ssh().text("ssh-ed25519-cert-v01@openssh.com").string(point(32)).bytes(),
  },
  { name: "a key of 31 bytes", blob: ssh().text("ssh-ed25519").string(point(31)).bytes() },
  { name: "a key of 33 bytes", blob: ssh().text("ssh-ed25519").string(point(33)).bytes() },
  { name: "trailing bytes", blob: ssh().text("ssh-ed25519").string(point(32)).u32(0).bytes() },
  { name: "a missing key", blob: ssh().text("ssh-ed25519").bytes() },
  {
    name: "another curve inside",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp384").string(point(65)).bytes(),
  },
  {
    name: "a compressed point",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(33, 2)).bytes(),
  },
  {
    name: "a point with a wrong first byte",
    blob: ssh().text("ecdsa-sha2-nistp256").text("nistp256").string(point(65, 2)).bytes(),
  },
  { name: "an RSA exponent of 0", blob: ssh().text("ssh-rsa").text("").mpint(number(256)).bytes() },
  { name: "an RSA modulus of 0", blob: ssh().text("ssh-rsa").mpint(number(1)).text("").bytes() },
  {
    name: "an RSA modulus of 2,049 bytes",
    blob: ssh().text("ssh-rsa").mpint(number(1)).mpint(number(2049)).bytes(),
  },
])("decodeKeyBlob() refuses $name", ({ blob }) => {
  assert.throws(
    () => decodeKeyBlob(blob),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});
