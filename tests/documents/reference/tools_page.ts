/** The MCP tools, from the definitions that agents get. */
import { brokerConfig } from "@gateway/broker/config";
import { describeShape } from "@gateway/shared/config";
import type { Tool } from "../../../broker/tools/tool.ts";
import { createToolset, describeTools } from "../../../broker/tools/toolset.ts";
import { shapeAt, shapeOf } from "../../../shared/config/problems.ts";
import { fill, table } from "./table.ts";

const fallback = (...key: readonly string[]) => Number(shapeAt(shapeOf(brokerConfig), key)?.default);
const LIMITS = {
  maxOutputBytes: fallback("max_output_bytes"),
  maxFileBytes: fallback("file_transfer_max_bytes"),
  maxTtlSeconds: fallback("max_ttl_seconds"),
  approvalWaitSeconds: fallback("signer", "approval_wait_seconds"),
  sessionIdleSeconds: fallback("session_idle_seconds"),
  sessionMaxSeconds: fallback("session_max_seconds"),
};

export function toolsPage(): string {
  // A tool uses its broker only when it is called.
  const { tools } = createToolset({ limits: LIMITS } as never);
  return fill("mcp-tools", {
    list: table(["Tool", "Purpose"], tools.map(({ name, title }) => [`[${name}](#${name})`, title])),
    instructions: describeTools(LIMITS).replaceAll("<", "&lt;"),
    tools: tools.map(describeTool).join("\n\n"),
  });
}

function describeTool({ name, title, description, annotations, inputSchema, outputSchema }: Tool): string {
  const hints = Object.entries(annotations).filter(([, value]) => value).map(([hint]) => `\`${hint}\``).join(
    ", ",
  );
  return [
    `## ${name}`,
    `${title}. ${description}`,
    ...(hints === "" ? [] : [`Annotations: ${hints}.`]),
    `Arguments:\n\n${describeShape(inputSchema)}`,
    `Result (\`structuredContent\`):\n\n${describeShape(outputSchema)}`,
    `\`\`\`json\n${JSON.stringify({ inputSchema, outputSchema })}\n\`\`\``,
  ].join("\n\n");
}
