import assert from "node:assert/strict";
import type { BrokerFrontend } from "./permissions.ts";
import { type CommandLine, parseCommandLine } from "./command_line.ts";

const serve = (frontend: BrokerFrontend, config = "config.json") => ({
  kind: "serve",
  frontend,
  config,
});

Deno.test.each<{ args: string; gives: object }>([
  { args: "serve-http", gives: serve("serve-http") },
  { args: "serve-mcp", gives: serve("serve-mcp") },
  { args: "serve-mcp -config f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp --config f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp -config=f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp --config=f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp-http -config f.json", gives: serve("serve-mcp-http", "f.json") },
  { args: "connect /run/a.sock", gives: { kind: "connect", socket: "/run/a.sock" } },
  { args: "connect --help", gives: { kind: "help" } },
  { args: "init", gives: { kind: "init", args: [] } },
  { args: "init --dir x -h", gives: { kind: "init", args: ["--dir", "x", "-h"] } },
  { args: "version", gives: { kind: "version", verbose: false } },
  { args: "version --verbose", gives: { kind: "version", verbose: true } },
  { args: "--version", gives: { kind: "version", verbose: false } },
  { args: "-version", gives: { kind: "version", verbose: false } },
  { args: "-version -verbose", gives: { kind: "version", verbose: true } },
  { args: "serve-http -version", gives: { kind: "version", verbose: false } },
  { args: "help", gives: { kind: "help" } },
  { args: "-h", gives: { kind: "help" } },
  { args: "--help", gives: { kind: "help" } },
  { args: "serve-mcp -h", gives: { kind: "help" } },
  { args: "", gives: { kind: "misused", problem: "a command is required" } },
  { args: "-config f.json", gives: { kind: "misused", problem: "a command is required" } },
  { args: "serve", gives: { kind: "misused", problem: 'unknown command "serve"' } },
  { args: "serve-mcp-https", gives: { kind: "misused", problem: 'unknown command "serve-mcp-https"' } },
])("parseCommandLine() reads `gateway $args`", ({ args, gives }) => {
  assert.deepEqual(parseCommandLine(args === "" ? [] : args.split(" ")), gives);
});

Deno.test.each([
  "connect",
  "connect a b",
  "connect --config f",
  "serve-mcp --conf f",
  "serve-mcp -config",
  "serve-http extra",
  "-x",
  "version -x",
])(
  "parseCommandLine() refuses `gateway %s`",
  (args) => {
    const command: CommandLine = parseCommandLine(args.split(" "));
    assert.equal(command.kind, "misused");
  },
);
