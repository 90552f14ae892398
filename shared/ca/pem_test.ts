import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { encodeOpensshPrivateKey } from "../ssh/openssh_key.ts";
import { verifySignature } from "../ssh/keys.ts";
import { parsePemCaKey } from "./pem.ts";

const PEM = encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca");
const DATA = Uint8Array.of(1, 2, 3);

Deno.test("parsePemCaKey() gives a key that signs", async () => {
  const key = parsePemCaKey(PEM);
  assert.equal(key.backend, "pem");
  assert.equal(key.algorithm, "ssh-ed25519");
  assert.ok(verifySignature(key.publicKey, await key.sign(DATA), DATA));
});

Deno.test("the private half of a CA key does not show", () => {
  assert.deepEqual(Object.keys(parsePemCaKey(PEM)).sort(), ["algorithm", "backend", "publicKey", "sign"]);
});

Deno.test("a CA key does not sign for an aborted request", async () => {
  await assert.rejects(parsePemCaKey(PEM).sign(DATA, AbortSignal.abort()), { name: "AbortError" });
});

Deno.test("parsePemCaKey() refuses what is not a key", () => {
  assert.throws(
    () => parsePemCaKey("x"),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});
