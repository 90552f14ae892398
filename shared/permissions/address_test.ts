import assert from "node:assert/strict";
import { AppError } from "../errors.ts";
import { addressPermissions, listenPermissions, urlPermissions } from "./address.ts";

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
])("listenPermissions() refuses $name", ({ listen }) => {
  assert.throws(
    () => listenPermissions(listen),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});

Deno.test.each([
  { name: "a port", url: "https://127.0.0.1:9443", net: ["127.0.0.1:9443"] },
  { name: "no port", url: "https://signer.example/v1", net: ["signer.example:443"] },
  { name: "an IPv6 address", url: "https://[::1]:9443/", net: ["[::1]:9443"] },
  {
    name: "credentials, which grant nothing",
    url: "https://a:b@signer.example:1",
    net: ["signer.example:1"],
  },
])("urlPermissions() reads a URL with $name", ({ url, net }) => {
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
