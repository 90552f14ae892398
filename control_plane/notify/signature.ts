import { createHmac, createSecretKey } from "node:crypto";
import { AppError } from "@gateway/shared/errors";

interface SignedMessage {
  /** The same for every attempt to deliver the message; holds no dot. */
  readonly id: string;
  /** When this attempt is made, in milliseconds since the epoch. */
  readonly sentAt: number;
  readonly body: string;
}

/** The headers that prove to the receiver of a message where it is from. */
export type WebhookSigner = (message: SignedMessage) => Readonly<Record<string, string>>;

const PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/**
 * Signs as Standard Webhooks 1.0 says: HMAC-SHA256 over `id.timestamp.body`.
 *
 * @param secret `whsec_` and the key in base64
 * @throws {AppError} `invalid_config` when it is not, or the key is not 24 to 64 bytes long
 */
export function createWebhookSigner(secret: string): WebhookSigner {
  const key = createSecretKey(decodeSecret(secret));
  return ({ id, sentAt, body }) => {
    const timestamp = Math.floor(sentAt / 1000).toString();
    const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`);
    return {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": `v1,${hmac.digest("base64")}`,
    };
  };
}

function decodeSecret(secret: string): Uint8Array {
  if (!secret.startsWith(PREFIX)) throw unusable(`must begin with ${PREFIX}`);
  let key: Uint8Array;
  try {
    key = Uint8Array.fromBase64(secret.slice(PREFIX.length), { lastChunkHandling: "strict" });
  } catch {
    // The decoder's own error could quote the secret.
    throw unusable(`must be ${PREFIX} followed by base64`);
  }
  if (key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES) return key;
  throw unusable(`must hold ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} bytes in base64`);
}

function unusable(problem: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot use the secret of approval.webhook_secret_env: it ${problem}`,
  );
}
