import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { parseListenAddress } from "./listen_address.ts";

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
