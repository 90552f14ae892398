import assert from "node:assert/strict";
import { encodeEvent, encodeHeader } from "./recorder.ts";

const HEADER = {
  sessionId: "0123456789abcdef01234567",
  caller: "agent-1",
  host: "web01",
  serial: 18446744073709551615n,
  startedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 678),
};

Deno.test("encodeHeader() makes the header of asciicast v2, with an exact serial", () => {
  assert.equal(
    encodeHeader(HEADER),
    '{"version":2,"width":220,"height":40,"timestamp":1767323045,' +
      '"title":"session 0123456789abcdef01234567 — agent-1@web01","env":{"TERM":"xterm-256color"},' +
      '"gateway":{"session_id":"0123456789abcdef01234567","caller":"agent-1","host":"web01",' +
      '"serial":18446744073709551615,"started_at":"2026-01-02T03:04:05Z"}}\n',
  );
});

Deno.test.each([
  ["writes seconds", 1500, "a\n", '[1.5, "o", "a\\r\\n"]\n'],
  ["leaves the line ends of a terminal", 0, "a\r\n\rb", '[0, "o", "a\\r\\n\\rb"]\n'],
  ["starts at zero", 0, "a", '[0, "o", "a"]\n'],
  ["escapes controls", 1, "\u001b[31m\u0000", '[0.001, "o", "\\u001b[31m\\u0000"]\n'],
  ["replaces lone surrogates", 1, "a\ud800b", '[0.001, "o", "a\ufffdb"]\n'],
])("encodeEvent() %s", (_name, elapsed, data, line) => {
  assert.equal(encodeEvent(elapsed, "o", data), line);
});
