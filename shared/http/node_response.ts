/**
 * Sends a `Response` through `node:http`: in one piece, or as it comes when it is an event stream.
 *
 * @module
 */
import type { ServerResponse } from "node:http";

/** Types whose bodies are text, hence can be sent as a string: head and body then leave in one write. */
const TEXT = /^(?:application\/(?:problem\+)?json|text\/)/;

/** Sends an answer. Resolves when it is handed to the socket, or when the client has gone. */
export async function sendResponse(response: Response, outgoing: ServerResponse): Promise<void> {
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("text/event-stream")) return await sendStream(response, outgoing);
  const body = TEXT.test(type) ? await response.text() : await response.bytes();
  if (outgoing.destroyed) return;
  writeHead(response, outgoing);
  outgoing.end(body);
}

function writeHead(response: Response, outgoing: ServerResponse): void {
  outgoing.statusCode = response.status;
  response.headers.forEach((value, name) => outgoing.appendHeader(name, value));
}

async function sendStream(response: Response, outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return await response.body?.cancel();
  writeHead(response, outgoing);
  outgoing.flushHeaders();
  const reader = response.body?.getReader();
  const stop = () => void reader?.cancel().catch(() => {});
  outgoing.on("close", stop);
  for (;;) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done || outgoing.destroyed) break;
    if (!outgoing.write(chunk.value)) await drained(outgoing);
  }
  outgoing.off("close", stop);
  outgoing.end();
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
