import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { createEphemeralKey } from "./certificate_auth.ts";
import { parseHostPin } from "./host_pin.ts";

const line = createEphemeralKey().publicKeyLine;
const { blob } = parsePublicKey(line);

Deno.test.each([
  { name: "authorized_keys", text: line },
  { name: "authorized_keys with comment and line end", text: `${line} root@web01\n` },
  { name: "known_hosts", text: `[web01.example.com]:2222,10.0.0.1 ${line}` },
  {
    name: "ssh-keyscan with its comment",
    text: `# web01.example.com:22 SSH-2.0-OpenSSH_9.2\nweb01 ${line}\n`,
  },
])("parseHostPin() reads a line of $name", ({ text }) => {
  const pin = parseHostPin(text, "web01");
  assert.deepEqual(pin.algorithms, ["ssh-ed25519"]);
  assert.ok(pin.matches(blob));
});

Deno.test("parseHostPin() matches nothing but the same bytes", () => {
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
  { name: "blanks", text: " \n" },
  { name: "a comment only", text: "# none yet" },
  { name: "a key that is cut off", text: line.slice(0, -8) },
  { name: "a type that is not in the key", text: formatPublicKey("ssh-rsa", blob) },
  { name: "two keys", text: `${line}\n${createEphemeralKey().publicKeyLine}` },
  { name: "a marker", text: `@cert-authority * ${line}` },
  { name: "a fingerprint", text: "SHA256:n95OCUO6+kyqSXipnPy/uKPWwz3FER8bfxF/KzYC/Kk" },
])("parseHostPin() refuses $name", ({ text }) => {
  assert.throws(() => parseHostPin(text, "web01"), (error: unknown) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "upstream_failure");
    assert.equal(error.message, 'connection: host key for "web01": parsing host key failed');
    return true;
  });
});
