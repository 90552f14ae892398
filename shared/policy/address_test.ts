import assert from "node:assert/strict";
import { findAddrFault, findSourceAddressFault } from "./compile_host.ts";

Deno.test.each(
  ["10.0.0.1:22", "web01:1", "web-1.example.com:65535", "[::1]:22", "[2001:db8::1]:2222"].map((addr) => ({
    addr,
  })),
)(
  "findAddrFault() accepts $addr",
  ({ addr }) => {
    assert.equal(findAddrFault(addr), undefined);
  },
);

Deno.test.each(
  [
    "",
    "web01",
    "web01:",
    ":22",
    "web01:0",
    "web01:65536",
    "web01:ssh",
    "::1:22",
    "[::1]",
    "[zz]:22",
    "[1.2.3.4]:22",
    "a b:22",
    "a\n:22",
    "u@h:22",
    "h/x:22",
  ].map((addr) => ({ addr })),
)(
  "findAddrFault() refuses $addr",
  ({ addr }) => {
    assert.notEqual(findAddrFault(addr), undefined);
  },
);

Deno.test.each(
  [
    "10.0.0.1",
    "10.0.0.0/8",
    "0.0.0.0/0",
    "10.0.0.1/32",
    "::1",
    "2001:db8::/32",
    "::/0",
    "2001:db8::1/128",
    "::ffff:10.0.0.0/104",
    "10.0.0.1,192.168.0.0/16,::1",
  ].map((list) => ({ list })),
)(
  "findSourceAddressFault() accepts $list",
  ({ list }) => {
    assert.equal(findSourceAddressFault(list), undefined);
  },
);

Deno.test.each(
  [
    "",
    "host",
    "10.0.0",
    "10.0.0.1/33",
    "10.0.0.1/",
    "10.0.0.1/8",
    "10.0.0.0/8/8",
    "10.0.0.0/-1",
    "::1/129",
    "2001:db8::1/32",
    "fe80::1%eth0",
    "10.0.0.1, 10.0.0.2",
    "10.0.0.1,",
    "!10.0.0.1",
    "10.0.0.*",
  ].map((list) => ({ list })),
)(
  "findSourceAddressFault() refuses $list",
  ({ list }) => {
    assert.notEqual(findSourceAddressFault(list), undefined);
  },
);
