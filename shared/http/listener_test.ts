import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { callerFromCertificate, parseListenAddress } from "./listener.ts";
import { parseDeniedCallers } from "./tls_files.ts";

Deno.test.each(
  ["broker-1", "a", "Ops Broker", "brøker", "host:web01", "_default", "\u00a0"].map((name) => ({ name })),
)(
  "callerFromCertificate() accepts $name",
  ({ name }) => {
    assert.equal(callerFromCertificate(true, name), name);
    assert.equal(callerFromCertificate(false, name), undefined);
  },
);

Deno.test.each<{ readonly name: string; readonly commonName: unknown }>([
  { name: "none", commonName: undefined },
  { name: "null", commonName: null },
  { name: "an empty one", commonName: "" },
  { name: "two", commonName: ["broker-1", "admin"] },
  { name: "a list of one", commonName: ["broker-1"] },
  { name: "an object", commonName: { toString: () => "broker-1" } },
  { name: "a String object", commonName: new String("broker-1") },
  { name: "a NUL", commonName: "broker-1\0" },
  { name: "a line feed", commonName: "broker-1\nadmin" },
  { name: "a tab", commonName: "broker\t1" },
  { name: "DEL", commonName: "broker\x7f" },
  { name: "the first C1 control", commonName: "broker\x80" },
  { name: "the last C1 control", commonName: "broker\x9f" },
  { name: "a zero-width space", commonName: "broker\u200b-1" },
  { name: "a bidi override", commonName: "\u202e1-rekorb" },
  { name: "a tag", commonName: "broker-1\u{e0041}" },
  { name: "a variation selector", commonName: "broker-1\ufe0f" },
  { name: "private use", commonName: "broker-1\ue000" },
  { name: "half of a surrogate pair", commonName: "broker\ud800" },
])("callerFromCertificate() refuses $name (I8)", ({ commonName }) => {
  assert.equal(callerFromCertificate(true, commonName), undefined);
});

Deno.test.each([
  { name: "nothing of an empty file", text: "", names: [] },
  { name: "a name a line, without comments and blanks", text: "# lost\na\n\n b c \n", names: ["a", "b c"] },
])("parseDeniedCallers() gives $name", ({ text, names }) => {
  assert.deepEqual([...parseDeniedCallers(text)], names);
});

Deno.test.each([
  { name: "a last line without its end", text: "agent-1\nage", why: /written in part/ },
  { name: "a control character", text: "a\nb\0c\n", why: /^line 2/ },
])("parseDeniedCallers() refuses $name", ({ text, why }) => {
  assert.throws(() => parseDeniedCallers(text), { code: "invalid_config", message: why });
});

Deno.test.each([
  { text: ":9443", hostname: "0.0.0.0", port: 9443 },
  { text: "127.0.0.1:0", hostname: "127.0.0.1", port: 0 },
  { text: "localhost:65535", hostname: "localhost", port: 65535 },
  { text: "signer.example:1", hostname: "signer.example", port: 1 },
  { text: "[::]:9443", hostname: "::", port: 9443 },
  { text: "[fe80::1%eth0]:1", hostname: "fe80::1%eth0", port: 1 },
])("parseListenAddress() reads $text", ({ text, hostname, port }) => {
  assert.deepEqual(parseListenAddress(text), { hostname, port });
});

Deno.test.each([
  "",
  ":",
  "9443",
  "localhost",
  "localhost:",
  "localhost:http",
  "localhost:65536",
  "localhost:-1",
  "localhost:+1",
  "::1:9443",
  "[::1]",
  "[]:1",
  "[localhost]:1",
  "a b:1",
  "https://localhost:1",
  "localhost:1/",
  "localhost:1\n",
  ":１",
].map((text) => ({ text })))("parseListenAddress() refuses '$text'", ({ text }) => {
  assert.throws(() => parseListenAddress(text), (error) => {
    assert.ok(error instanceof AppError && error.code === "invalid_config");
    assert.equal(error.message, `Cannot use listen address ${JSON.stringify(text)}: expected host:port`);
    return true;
  });
});
