import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { parseStart, type StartRequest } from "./service_permissions.ts";

Deno.test.each<{ name: string; args: string[]; expected: StartRequest }>([
  { name: "the signer", args: ["signer"], expected: { service: "signer", config: "signer.json", rest: [] } },
  {
    name: "the control plane",
    args: ["control-plane"],
    expected: { service: "control-plane", config: "control-plane.json", rest: [] },
  },
  {
    name: "the broker with its config",
    args: ["broker", "--config", "c.json"],
    expected: { service: "broker", frontend: "serve-http", config: "c.json", rest: [] },
  },
  {
    name: "the broker over stdio, with a single dash and more",
    args: ["mcp", "--verbose", "-config=c=d.json", "x"],
    expected: { service: "broker", frontend: "serve-mcp", config: "c=d.json", rest: ["--verbose", "x"] },
  },
  {
    name: "the broker for end users with tokens",
    args: ["mcp-http"],
    expected: { service: "broker", frontend: "serve-mcp-http", config: "config.json", rest: [] },
  },
])("parseStart() reads $name", ({ args, expected }) => {
  assert.deepEqual(parseStart(args), expected);
});

Deno.test.each([
  { name: "nothing", args: [] },
  { name: "an unknown service", args: ["toString"] },
  { name: "a config without file", args: ["signer", "--config"] },
  { name: "two configs", args: ["signer", "--config", "a", "--config=b"] },
])("parseStart() refuses $name", ({ args }) => {
  assert.throws(
    () => parseStart(args),
    (error) => error instanceof AppError && error.code === "invalid_request",
  );
});
