import assert from "node:assert/strict";
import { parseHostAddress } from "./connect.ts";

Deno.test.each([
  { addr: "10.0.0.21:22", hostname: "10.0.0.21", port: 22 },
  { addr: "web01.example.com:2222", hostname: "web01.example.com", port: 2222 },
  { addr: "[::1]:22", hostname: "::1", port: 22 },
  { addr: "[fe80::1%eth0]:65535", hostname: "fe80::1%eth0", port: 65535 },
])("parseHostAddress() reads $addr", ({ addr, ...address }) => {
  assert.deepEqual(parseHostAddress(addr), address);
});

Deno.test.each(
  [
    "",
    "web01",
    ":22",
    "web01:",
    "web01:0",
    "web01:65536",
    "web01:22x",
    "::1:22",
    "[::1]",
    "a b:22",
    "[web01]:22",
  ]
    .map((addr) => ({ addr })),
)("parseHostAddress() refuses '$addr' without repeating it", ({ addr }) => {
  assert.throws(() => parseHostAddress(addr), {
    code: "upstream_failure",
    message: "connection: host address is not host:port",
  });
});
