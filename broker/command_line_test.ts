import assert from "node:assert/strict";
import { type CommandLine, parseCommandLine } from "./command_line.ts";

const serve = (frontend: "serve-http" | "serve-mcp", config = "config.json") => ({
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
  { args: "serve-mcp-http", gives: { kind: "misused", problem: 'unknown command "serve-mcp-http"' } },
])("parseCommandLine() reads `broker $args`", ({ args, gives }) => {
  assert.deepEqual(parseCommandLine(args === "" ? [] : args.split(" ")), gives);
});

Deno.test.each(["serve-mcp --conf f", "serve-mcp -config", "serve-http extra", "-x", "version -x"])(
  "parseCommandLine() refuses `broker %s`",
  (args) => {
    const command: CommandLine = parseCommandLine(args.split(" "));
    assert.equal(command.kind, "misused");
  },
);
