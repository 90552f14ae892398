/**
 * The bytes of a request's body, never more than allowed.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { readBodyBytes } from "@gateway/shared/http/body_bytes";
 *
 * const request = new Request("https://control-plane/ui", { method: "POST", body: "decision=deny" });
 * assert.equal(new TextDecoder().decode(await readBodyBytes(request, 4096)), "decision=deny");
 * ```
 *
 * @module
 */
import type { IncomingMessage } from "node:http";
import { concatBytes } from "../bytes.ts";
import { AppError } from "../errors.ts";
import { headerOf, messageOf } from "./node_request.ts";

/**
 * Reads a body to its end.
 *
 * @throws {AppError} `payload_too_large` as soon as it exceeds `maxBytes`, `invalid_request` when it breaks off
 */
export async function readBodyBytes(request: Request, maxBytes: number): Promise<Uint8Array> {
  // Announced sizes are refused unread. An absent or absurd header is NaN or 0, and the count decides.
  if (Number(headerOf(request, "content-length")) > maxBytes) throw tooLarge(maxBytes);
  const message = messageOf(request);
  const chunks = message === undefined
    ? await readStream(request.body, maxBytes)
    : await readMessage(message, maxBytes);
  const [first] = chunks;
  return first !== undefined && chunks.length === 1 ? first : concatBytes(chunks);
}

/** Past the stream of the request: its machinery would cost more than parsing the body. */
function readMessage(message: IncomingMessage, maxBytes: number): Promise<readonly Uint8Array[]> {
  if (message.readableDidRead) throw new TypeError("Request body was read before");
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let length = 0;
    const take = (chunk: Uint8Array) => {
      length += chunk.length;
      chunks.push(chunk);
      if (length <= maxBytes) return;
      // The rest flows on and is dropped, within the server's time for a request.
      message.off("data", take).resume();
      reject(tooLarge(maxBytes));
    };
    message.on("data", take);
    message.on("end", () => resolve(chunks));
    message.on("error", (cause) => reject(brokeOff(cause)));
    message.on("close", () => {
      // Closes after every body; an error with its stack is made only for one that broke off.
      if (!message.complete) reject(brokeOff());
    });
  });
}

async function readStream(body: Request["body"], maxBytes: number): Promise<readonly Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  const reader = body?.getReader();
  let length = 0;
  for (;;) {
    const chunk = await reader?.read().catch((cause) => {
      throw brokeOff(cause);
    });
    if (chunk === undefined || chunk.done) return chunks;
    length += chunk.value.length;
    chunks.push(chunk.value);
    if (length > maxBytes) {
      // Not awaited: the answer must not wait for a sender who goes on.
      reader?.cancel().catch(() => {});
      throw tooLarge(maxBytes);
    }
  }
}

function tooLarge(maxBytes: number): AppError {
  return new AppError("payload_too_large", `Request body is larger than ${maxBytes} bytes`);
}

function brokeOff(cause?: unknown): AppError {
  return new AppError("invalid_request", "Request body broke off", { cause });
}
