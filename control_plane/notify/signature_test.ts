import assert from "node:assert/strict";
import { inspect } from "node:util";
import { AppError } from "@gateway/shared/errors";
import { createWebhookSigner } from "./notifier.ts";

// The example of the Standard Webhooks libraries.
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const secretOf = (bytes: number) => `whsec_${new Uint8Array(bytes).fill(7).toBase64()}`;

Deno.test("createWebhookSigner() agrees with the published example", () => {
  const sign = createWebhookSigner(SECRET);
  assert.deepEqual(
    sign({ id: "msg_p5jXN8AQM9LWM0D4loKWxJek", sentAt: 1614265330_000, body: '{"test": 2432232314}' }),
    {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
  );
});

Deno.test("createWebhookSigner() signs whole seconds and the UTF-8 of the body", () => {
  const sign = createWebhookSigner(SECRET);
  const early = sign({ id: "a", sentAt: 1000, body: "ü🙂" });
  assert.deepEqual(sign({ id: "a", sentAt: 1999, body: "ü🙂" }), early);
  assert.notDeepEqual(sign({ id: "a", sentAt: 1000, body: "u🙂" }), early);
});

Deno.test.each([24, 32, 64])("createWebhookSigner() takes a key of %d bytes", (bytes) => {
  createWebhookSigner(secretOf(bytes));
});

Deno.test.each([
  { name: "an empty secret", secret: "" },
  { name: "a secret without prefix", secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  { name: "another prefix", secret: "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  { name: "the prefix alone", secret: "whsec_" },
  { name: "what is not base64", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!w" },
  { name: "the base64 of URLs", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_" },
  { name: "base64 that is cut off", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwA" },
  { name: "base64 without its padding", secret: secretOf(25).replace(/=+$/, "") },
  { name: "a short key", secret: secretOf(23) },
  { name: "a long key", secret: secretOf(65) },
])("createWebhookSigner() refuses $name and does not repeat it", ({ secret }) => {
  assert.throws(() => createWebhookSigner(secret), (error) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /approval\.webhook_secret_env/);
    const key = secret.slice(6);
    if (key !== "") assert.ok(!inspect(error, { depth: 9 }).includes(key));
    return true;
  });
});
