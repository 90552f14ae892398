/**
 * Runs the official MCP conformance suite against the frontend over HTTP. Not part of the tests: the suite
 * brings a hundred packages that nothing else needs, and is fetched when this is started.
 *
 * @module
 */
import { AppError } from "@gateway/shared/errors";
import { problemResponse } from "@gateway/shared/http/problem";
import type { Tool, ToolContext, ToolResult } from "../../broker/tools/tool.ts";
import { McpHttpFixture } from "../../broker/testing/mcp_http_fixture.ts";

const SUITE = "npm:@modelcontextprotocol/conformance@0.1.16";

/** What the suite has for a server with tools and text, and neither log messages, resources nor prompts. */
const SCENARIOS = [
  "server-initialize",
  "ping",
  "tools-list",
  "tools-call-simple-text",
  "tools-call-error",
  "tools-call-with-progress",
  "json-schema-2020-12",
  "server-sse-polling",
  "server-sse-multiple-streams",
  "dns-rebinding-protection",
  "resources-list",
  "prompts-list",
] as const;

const EMPTY = { type: "object", properties: {} } as const;

/** A tool that the suite calls by its name. */
function suiteTool(name: string, call: (context: ToolContext) => Promise<ToolResult> | ToolResult): Tool {
  return {
    name,
    title: name,
    description: name,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    inputSchema: EMPTY,
    outputSchema: EMPTY,
    call: async (_args, context) => await call(context),
  };
}

const address = { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } };

const TOOLS: readonly Tool[] = [
  suiteTool("test_simple_text", () => ({
    text: "This is a simple text response for testing.",
    structured: {},
  })),
  suiteTool("test_error_handling", () => {
    throw new AppError("denied", "This tool intentionally returns an error for testing");
  }),
  suiteTool("test_tool_with_progress", ({ onProgress }) => {
    for (const step of ["0", "50", "100"]) onProgress?.(step);
    return { text: "done", structured: {} };
  }),
  suiteTool("test_reconnection", () => ({
    text: "Reconnection test completed successfully",
    structured: {},
  })),
  {
    ...suiteTool("json_schema_2020_12_tool", () => ({ text: "", structured: {} })),
    inputSchema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    },
  },
];

/** Serves the frontend as the suite can reach it: without TLS, and with a token put into every request. */
function serve(frontend: McpHttpFixture) {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const headers = new Headers(request.headers);
    headers.set("authorization", "Bearer suite");
    const body = request.method === "POST" ? { body: await request.text() } : {};
    try {
      return await frontend.frontend.fetch(
        new Request(request.url, { method: request.method, headers, ...body }),
      );
    } catch (error) {
      return problemResponse(error);
    }
  });
}

async function runScenario(scenario: string, port: number): Promise<boolean> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-lock",
      "--no-prompt",
      "--allow-read",
      "--allow-env",
      "--allow-sys",
      `--allow-net=127.0.0.1:${port}`,
      SUITE,
      "server",
      "--url",
      `http://127.0.0.1:${port}/mcp`,
      "--scenario",
      scenario,
    ],
    env: { NO_COLOR: "1" },
  }).output();
  const text = new TextDecoder();
  await Deno.stdout.write(new TextEncoder().encode(`${success ? "passed" : "FAILED"} ${scenario}\n`));
  if (!success) await Deno.stdout.write(new TextEncoder().encode(text.decode(stdout) + text.decode(stderr)));
  return success;
}

if (import.meta.main) {
  await using frontend = new McpHttpFixture({ tools: TOOLS });
  const server = serve(frontend);
  let failures = 0;
  for (const scenario of SCENARIOS) failures += await runScenario(scenario, server.addr.port) ? 0 : 1;
  await frontend.frontend.close();
  await server.shutdown();
  Deno.exitCode = failures === 0 ? 0 : 1;
}
