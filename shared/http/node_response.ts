/**
 * Sends a `Response` through `node:http`: an event stream as it comes, anything else in one piece, or where that is
 * asked for as the client takes it: then who made the answer learns from its end being asked for that the client has
 * taken what was before.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";

/** Types whose bodies are text, hence can be sent as a string: head and body then leave in one write. */
const TEXT = /^(?:application\/(?:problem\+)?json|text\/)/;
/** What is sent in one piece has at most so many bytes, and what came with the last of them. */
const SHORT_BYTES = 64 << 10;

type Reader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Sends an answer. Resolves when it is handed to the socket, or when the client has gone.
 *
 * @param isPaced whether a long answer leaves as the client takes it; otherwise it leaves in one piece, which costs less
 */
export async function sendResponse(
  response: Response,
  outgoing: ServerResponse,
  isPaced: boolean,
): Promise<void> {
  const type = response.headers.get("content-type") ?? "";
  if (isPaced || type.startsWith("text/event-stream")) return await sendPieces(response, outgoing, type);
  const body = TEXT.test(type) ? await response.text() : await response.bytes();
  if (outgoing.destroyed) return;
  writeHead(response, outgoing);
  outgoing.end(body);
}

async function sendPieces(response: Response, outgoing: ServerResponse, type: string): Promise<void> {
  if (outgoing.destroyed) return await response.body?.cancel();
  const reader = response.body?.getReader();
  const stop = () => void reader?.cancel().catch(() => {});
  outgoing.on("close", stop);
  if (type.startsWith("text/event-stream")) {
    writeHead(response, outgoing);
    outgoing.flushHeaders();
  } else {
    const { bytes, isAll } = await readStart(reader);
    if (outgoing.destroyed) return;
    writeHead(response, outgoing);
    if (isAll) return void outgoing.end(TEXT.test(type) ? new TextDecoder().decode(bytes) : bytes);
    if (!outgoing.write(bytes)) await drained(outgoing);
  }
  for (;;) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done || outgoing.destroyed) break;
    if (!outgoing.write(chunk.value)) await drained(outgoing);
  }
  outgoing.off("close", stop);
  outgoing.end();
}

function writeHead(response: Response, outgoing: ServerResponse): void {
  outgoing.statusCode = response.status;
  response.headers.forEach((value, name) => outgoing.appendHeader(name, value));
}

/** Reads a body until it ends, or is longer than what is sent in one piece. */
async function readStart(
  reader: Reader | undefined,
): Promise<{ readonly bytes: Uint8Array; readonly isAll: boolean }> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  while (length <= SHORT_BYTES) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done) return { bytes: join(chunks), isAll: true };
    chunks.push(chunk.value);
    length += chunk.value.length;
  }
  return { bytes: join(chunks), isAll: false };
}

function join(chunks: readonly Uint8Array[]): Uint8Array {
  const [only] = chunks;
  return chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks);
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });
}
