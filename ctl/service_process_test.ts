import assert from "node:assert/strict";
import { isToldOf, readServiceCommand } from "./service_process.ts";

Deno.test.each([
  {
    args: "/usr/lib/gateway/deno run --allow-read=/a b,/c /usr/lib/gateway/signer/main.js --config /c/s.json",
    service: "signer",
    frontend: "serve-http",
    runtime: "/usr/lib/gateway/deno run --allow-read=/a b,/c",
    program: "/usr/lib/gateway/signer/main.js",
    config: "/c/s.json",
  },
  {
    args: "deno run -A broker/main.ts serve-mcp-http -config=/c/mcp.json --log-level debug",
    service: "broker",
    frontend: "serve-mcp-http",
    runtime: "deno run -A",
    program: "broker/main.ts",
    config: "/c/mcp.json --log-level debug",
  },
  {
    args: "/usr/bin/deno -P=control-plane /usr/local/bin/control-plane --config /c/cp.json",
    service: "control-plane",
    frontend: "serve-http",
    runtime: "/usr/bin/deno -P=control-plane",
    program: "/usr/local/bin/control-plane",
    config: "/c/cp.json",
  },
  {
    args: "/opt/mcp-broker --config /c/mcp.json",
    service: "broker",
    frontend: "serve-mcp",
    runtime: "",
    program: "/opt/mcp-broker",
    config: "/c/mcp.json",
  },
])("readServiceCommand() reads $args", ({ args, ...expected }) => {
  assert.deepEqual(readServiceCommand(args), { ...expected, isAmbiguous: false });
});

Deno.test.each([
  "",
  "signer",
  "/usr/bin/my-signer --config /c/s.json",
  "/usr/bin/signer-proxy --config /c/s.json",
  "deno run -P=broker-ctl ctl/main.ts permissions signer --config /c/s.json",
  "/bin/sh /usr/lib/gateway/ctl/start.sh signer --config /c/s.json",
  "deno run ctl/main.ts doctor --config /c/s.json",
  "vim /c/s.json",
])("readServiceCommand() takes no service for %s", (args) => {
  assert.equal(readServiceCommand(args), undefined);
});

Deno.test("readServiceCommand() says when another service hides in a value", () => {
  const args = "deno run --x=/a/signer/main.ts --config /c/s.json -A /b/signer/main.ts --config /c/s.json";
  assert.equal(readServiceCommand(args)?.isAmbiguous, true);
});

Deno.test("isToldOf() takes no config for another that begins like it", () => {
  const told = (config: string) => isToldOf(readServiceCommand(`signer --config ${config}`)!, "/c/s.json");
  assert.deepEqual(["/c/s.json", "/c/s.json --x", "/c/s.json.old", "/c/s.json x"].map(told), [
    true,
    true,
    false,
    false,
  ]);
});
