/**
 * Makes providers' answers safe for the client library, which parses them with the engine's parser.
 *
 * @module
 */
import { withPlainKeys } from "@gateway/shared/json";

/** A line of an event with a backslash; a line without one has no escapes. */
const DATA = /(?<=^|[\r\n])data:([^\r\n]*\\[^\r\n]*)/g;

/** The bytes of a body. */
type Bytes = Uint8Array<ArrayBuffer>;

/**
 * Passes a body through with its keys rewritten without backslashes: a whole JSON text, or the lines of a
 * stream of events. If that is impossible, the body ends with a {@linkcode SyntaxError}.
 */
export function plainBody(isEvents: boolean): TransformStream<Bytes, Bytes> {
  const [decoder, encoder] = [new TextDecoder(), new TextEncoder()];
  let parts: string[] = [];
  return new TransformStream({
    transform(chunk, controller) {
      const text = decoder.decode(chunk, { stream: true });
      const end = isEvents ? Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r")) + 1 : 0;
      if (end > 0) {
        controller.enqueue(encoder.encode(plainLines(parts.join("") + text.slice(0, end))));
        parts = [];
      }
      parts.push(text.slice(end));
    },
    flush(controller) {
      const rest = parts.join("") + decoder.decode();
      controller.enqueue(encoder.encode(isEvents ? plainLines(rest) : withPlainKeys(rest)));
    },
  });
}

function plainLines(lines: string): string {
  return lines.replace(DATA, (_line, json: string) => `data:${withPlainKeys(json)}`);
}
