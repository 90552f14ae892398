import assert from "node:assert/strict";
import {
  addressPermissions,
  caKeyFiles,
  formatFlags,
  formatJson,
  formatV8Flags,
  isInNetwork,
  isNetwork,
  listenPermissions,
  mergeSets,
  type PermissionJson,
  type PermissionSet,
  urlPermissions,
} from "./mod.ts";

Deno.test.each([
  { name: "nothing", listen: "", net: [] },
  { name: "a port alone, on every IPv4 address", listen: ":9443", net: ["0.0.0.0:9443"] },
  { name: "an IPv4 address", listen: "127.0.0.1:9443", net: ["127.0.0.1:9443"] },
  { name: "an IPv6 address", listen: "[::1]:9443", net: ["[::1]:9443"] },
  { name: "every IPv6 address", listen: "[::]:9443", net: ["[::]:9443"] },
  { name: "localhost", listen: "localhost:1", net: ["localhost:1", "127.0.0.1:1", "[::1]:1"] },
  { name: "a port that the system chooses", listen: "127.0.0.1:0", net: ["127.0.0.1:0"] },
])("listenPermissions() grants $name", ({ listen, net }) => {
  assert.deepEqual(listenPermissions(listen), net);
});

Deno.test.each([
  { name: "a host name", listen: "gateway.example:9443" },
  { name: "an address without port", listen: "127.0.0.1" },
  { name: "a comma", listen: "127.0.0.1:1,0.0.0.0:2" },
])("listenPermissions() rejects $name", ({ listen }) => {
  assert.throws(() => listenPermissions(listen), { name: "AppError", code: "invalid_config" });
});

Deno.test.each([
  ["a port", "https://127.0.0.1:9443", ["127.0.0.1:9443"]],
  ["no port", "https://signer.example/v1", ["signer.example:443"]],
  ["an IPv6 address", "https://[::1]:9443/", ["[::1]:9443"]],
  ["credentials, which grant nothing", "https://a:b@signer.example:1", ["signer.example:1"]],
])("urlPermissions() reads a URL with %s", (_name, url, net) => {
  assert.deepEqual(urlPermissions(url), net);
});

Deno.test.each([
  { name: "an address and port", addr: "10.0.0.5:2222", net: ["10.0.0.5:2222"] },
  { name: "a name and port", addr: "web01.example:22", net: ["web01.example:22"] },
  { name: "a name", addr: "web01.example", net: ["web01.example:22"] },
  { name: "a bracketed IPv6 address and port", addr: "[fd00::5]:22", net: ["[fd00::5]:22"] },
  { name: "a bracketed IPv6 address", addr: "[fd00::5]", net: ["[fd00::5]:22"] },
  { name: "a bare IPv6 address", addr: "fd00::5", net: ["[fd00::5]:22"] },
])("addressPermissions() reads $name", ({ addr, net }) => {
  assert.deepEqual(addressPermissions(addr), net);
});

Deno.test.each<{ text: string; is: boolean }>([
  { text: "10.0.0.0/8:22", is: true },
  { text: "0.0.0.0/0:22", is: true },
  { text: "10.0.0.5:2222", is: true },
  { text: "[fd00::5]:22", is: true },
  { text: "*.prod.example:22", is: true },
  { text: "db.example:22", is: true },
  { text: "10.0.0.0/8", is: false },
  { text: "10.0.0.0/33:22", is: false },
  { text: "10.0.0.256/8:22", is: false },
  { text: "10.0.0.0/8:0", is: false },
  { text: "10.0.0.0/8:65536", is: false },
  { text: "fc00::/7:22", is: false },
  { text: "[fc00::]/7:22", is: false },
  { text: "*:22", is: false },
  { text: "a.*.example:22", is: false },
  { text: "*.example", is: false },
  { text: "10.0.0.0/8:22,0.0.0.0/0:443", is: false },
  { text: "", is: false },
])('isNetwork() of "$text" is $is', ({ text, is }) => assert.equal(isNetwork(text), is));

Deno.test.each<{ addr: string; network: string; is: boolean }>([
  { addr: "10.1.2.3:22", network: "10.0.0.0/8:22", is: true },
  { addr: "10.1.2.3", network: "10.0.0.0/8:22", is: true },
  { addr: "10.1.2.3:2222", network: "10.0.0.0/8:22", is: false },
  { addr: "11.1.2.3:22", network: "10.0.0.0/8:22", is: false },
  { addr: "127.0.0.1:22", network: "10.0.0.0/33:22", is: false },
  { addr: "localhost:22", network: "127.0.0.0/8:22", is: false },
  { addr: "[fd00::5]:22", network: "[fd00::5]:22", is: true },
  { addr: "[fd00::5]:22", network: "0.0.0.0/0:22", is: false },
  { addr: "db.prod.example", network: "*.prod.example:22", is: true },
  { addr: "prod.example:22", network: "*.prod.example:22", is: false },
  { addr: "evilprod.example:22", network: "*.prod.example:22", is: false },
  { addr: "DB.prod.example:22", network: "db.PROD.example:22", is: true },
  { addr: "a:b:c", network: "*.prod.example:22", is: false },
])(
  "isInNetwork() of $addr in $network is $is",
  ({ addr, network, is }) => assert.equal(isInNetwork(addr, network), is),
);

Deno.test("caKeyFiles() distinguishes the key of a group named ca_key from the default key", () => {
  const ca_keys = { ca_key: { type: "pem", path: "group" }, "eu.prod": { type: "pem", path: "eu" } } as const;
  assert.deepEqual(caKeyFiles({ ca_key: "all", ca_keys }), {
    ca_key: "all",
    "ca_keys.ca_key": "group",
    'ca_keys["eu.prod"]': "eu",
  });
});

const NOTHING = ["--no-prompt", "--cached-only", "--no-code-cache", "--v8-flags=--max-semi-space-size=2"];

Deno.test.each<{ name: string; set: PermissionSet; flags: string[]; json: PermissionJson }>([
  { name: "an empty set", set: {}, flags: [], json: {} },
  { name: "empty lists", set: { read: [], write: [], net: [], ignoreEnv: [] }, flags: [], json: {} },
  {
    name: "every kind",
    set: {
      read: ["/a", "/b"],
      write: ["/c"],
      denyWrite: ["/c/d"],
      net: ["[::1]:1", "h:2"],
      ignoreEnv: ["X"],
    },
    flags: [
      "--allow-read=/a,/b",
      "--allow-write=/c",
      "--deny-write=/c/d",
      "--allow-net=[::1]:1,h:2",
      "--ignore-env=X",
    ],
    json: {
      read: ["/a", "/b"],
      write: { allow: ["/c"], deny: ["/c/d"] },
      net: ["[::1]:1", "h:2"],
      env: { ignore: ["X"] },
    },
  },
  {
    name: "any network and the whole environment",
    set: { write: ["/c"], net: "any", ignoreEnv: "all" },
    flags: ["--allow-write=/c", "--allow-net", "--ignore-env"],
    json: { write: ["/c"], net: true, env: { ignore: true } },
  },
])("formatFlags() and formatJson() write $name", ({ set, flags, json }) => {
  assert.deepEqual(formatFlags(set), [...NOTHING, ...flags]);
  assert.deepEqual(formatJson(set), json);
});

Deno.test.each<{ name: string; set: PermissionSet }>([
  { name: "reading", set: { read: ["/a,/etc/shadow"] } },
  { name: "writing", set: { write: ["/a,/etc"] } },
  { name: "denying", set: { write: ["/a"], denyWrite: ["/a/b,c"] } },
  { name: "connecting", set: { net: ["a:1,b:2"] } },
])("formatFlags() rejects a comma, which would grant two values, in $name", ({ set }) => {
  assert.throws(() => formatFlags(set), { name: "AppError", code: "invalid_config" });
});

Deno.test.each<[name: string, sets: PermissionSet[], merged: PermissionSet]>([
  ["two empty sets", [{}, { read: [] }], {}],
  [
    "lists sorted and without repetition",
    [{ read: ["/b", "/a"], net: ["h:2"] }, { read: ["/a", "/c"], net: ["h:1", "h:2"], denyWrite: ["/x"] }],
    { read: ["/a", "/b", "/c"], net: ["h:1", "h:2"], denyWrite: ["/x"] },
  ],
  ["any network over a list", [{ net: ["h:1"] }, { net: "any" }], { net: "any" }],
  ["all variables over a list", [{ ignoreEnv: "all" }, { ignoreEnv: ["X"] }], { ignoreEnv: "all" }],
])("mergeSets() merges %s", (_name, sets, merged) => {
  assert.deepEqual(mergeSets(...sets), merged);
});

Deno.test("formatV8Flags() sets the semi-space limit, and heap growth and compilation only on request", () => {
  assert.equal(formatV8Flags({}), "--v8-flags=--max-semi-space-size=2");
  assert.equal(
    formatV8Flags({ semiSpaceMegabytes: 1, heapGrowingPercent: 50 }),
    "--v8-flags=--max-semi-space-size=1,--heap-growing-percent=50",
  );
  assert.equal(
    formatV8Flags({ compilesInTurn: true }),
    "--v8-flags=--max-semi-space-size=2,--no-concurrent-recompilation",
  );
});
