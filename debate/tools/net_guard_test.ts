import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { compileAllowList, vet } from "./net_guard.ts";

const NOTHING = compileAllowList([]);

Deno.test.each([
  { address: "8.8.8.8", kind: undefined },
  { address: "2606:4700::1111", kind: undefined },
  { address: "127.0.0.1", kind: "loopback" },
  { address: "127.255.255.254", kind: "loopback" },
  { address: "::1", kind: "loopback" },
  { address: "::ffff:127.0.0.1", kind: "loopback" },
  { address: "::ffff:7f00:1", kind: "loopback" },
  { address: "64:ff9b::7f00:1", kind: "loopback" },
  { address: "64:ff9b::a00:1", kind: "private" },
  { address: "64:ff9b::808:808", kind: undefined },
  { address: "10.0.0.1", kind: "private" },
  { address: "172.16.0.1", kind: "private" },
  { address: "172.32.0.1", kind: undefined },
  { address: "192.168.1.1", kind: "private" },
  { address: "fc00::1", kind: "private" },
  { address: "fdff::1", kind: "private" },
  { address: "100.64.0.1", kind: "carrier" },
  { address: "100.128.0.1", kind: undefined },
  { address: "169.254.1.1", kind: "link-local" },
  { address: "fe80::1", kind: "link-local" },
  { address: "169.254.169.254", kind: "metadata" },
  { address: "168.63.129.16", kind: "metadata" },
  { address: "100.100.100.200", kind: "metadata" },
  { address: "fd00:ec2::254", kind: "metadata" },
  { address: "::ffff:169.254.169.254", kind: "metadata" },
  { address: "224.0.0.1", kind: "multicast" },
  { address: "ff02::1", kind: "multicast" },
  { address: "0.0.0.0", kind: "reserved" },
  { address: "255.255.255.255", kind: "reserved" },
  { address: "198.18.0.1", kind: "reserved" },
  { address: "::", kind: "reserved" },
  { address: "::7f00:1", kind: "reserved" },
  { address: "2002:7f00:1::", kind: "reserved" },
  { address: "2001::1", kind: "reserved" },
  { address: "2001:db8::1", kind: "reserved" },
  { address: "64:ff9b:1::1", kind: "reserved" },
  { address: "fec0::1", kind: "reserved" },
  { address: "4000::1", kind: "reserved" },
  { address: "fe80::1%eth0", kind: "no" },
  { address: "127.1", kind: "no" },
  { address: "0x7f000001", kind: "no" },
  { address: "example.com", kind: "no" },
].map((row) => ({ ...row, name: `${row.address}: ${row.kind ?? "allowed"}` })))(
  "vet() with an empty list, $name",
  ({ address, kind }) => {
    assert.equal(vet("h.test", [address], NOTHING)?.addressKind, kind);
  },
);

Deno.test.each([
  {
    name: "a listed name behind which is loopback",
    host: "Health.test.",
    addresses: ["127.0.0.1", "::1"],
    allowed: true,
  },
  {
    name: "a listed name behind which is a private address",
    host: "health.test",
    addresses: ["10.1.2.3"],
    allowed: true,
  },
  {
    name: "a listed name behind which is the metadata service",
    host: "health.test",
    addresses: ["169.254.169.254"],
    allowed: false,
  },
  {
    name: "a listed name behind which is a link-local address",
    host: "health.test",
    addresses: ["fe80::1"],
    allowed: false,
  },
  { name: "a name below a listed one", host: "x.health.test", addresses: ["10.1.2.3"], allowed: false },
  {
    name: "a name that ends like a listed one",
    host: "xhealth.test",
    addresses: ["10.1.2.3"],
    allowed: false,
  },
  { name: "an address in a listed network", host: "any.test", addresses: ["10.9.1.1"], allowed: true },
  {
    name: "the same address written as IPv6",
    host: "any.test",
    addresses: ["::ffff:10.9.1.1"],
    allowed: true,
  },
  {
    name: "one address in a listed network and one outside",
    host: "any.test",
    addresses: ["10.9.1.1", "10.8.1.1"],
    allowed: false,
  },
  {
    name: "the metadata service in a listed network",
    host: "any.test",
    addresses: ["100.100.100.200"],
    allowed: false,
  },
  {
    name: "another metadata service listed by its address",
    host: "any.test",
    addresses: ["168.63.129.16"],
    allowed: true,
  },
  { name: "no address", host: "health.test", addresses: [], allowed: false },
])("vet() $name", ({ host, addresses, allowed }) => {
  const list = compileAllowList([
    "health.test",
    "10.9.0.0/16",
    "100.64.0.0/10",
    "168.63.129.16",
    "[fd12::1]",
  ]);
  assert.equal(vet(host, addresses, list) === undefined, allowed);
});

Deno.test.each(
  ["http://h", "10.0.0.0/33", "a b", "-h", "300.1.1.1", "h:80", "*.h", "h/8"].map((entry) => ({
    name: entry,
    entry,
  })),
)(
  "compileAllowList() refuses $name",
  ({ entry }) => {
    assert.throws(
      () => compileAllowList(["ok.test", entry]),
      (error: unknown) =>
        error instanceof AppError && error.code === "invalid_config" && error.message.includes(`"${entry}"`),
    );
  },
);
