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
  { name: "writes seconds", elapsed: 1500, data: "a\n", line: '[1.5, "o", "a\\r\\n"]\n' },
  {
    name: "leaves the line ends of a terminal",
    elapsed: 0,
    data: "a\r\n\rb",
    line: '[0, "o", "a\\r\\n\\rb"]\n',
  },
  { name: "starts at zero", elapsed: 0, data: "a", line: '[0, "o", "a"]\n' },
  {
    name: "escapes controls",
    elapsed: 1,
    data: "\u001b[31m\u0000",
    line: '[0.001, "o", "\\u001b[31m\\u0000"]\n',
  },
  { name: "replaces lone surrogates", elapsed: 1, data: "a\ud800b", line: '[0.001, "o", "a\ufffdb"]\n' },
])("encodeEvent() $name", ({ elapsed, data, line }) => {
  assert.equal(encodeEvent(elapsed, "o", data), line);
});
