import type { Settings } from "../../debate/settings/config.ts";
import { systemClock } from "@gateway/shared/clock";
import { createToolPorts, createTools } from "../../debate/tools/catalogue.ts";
import { BARE_SETTINGS } from "../../debate/tools/testing/tool_bench.ts";
import type { ToolResult } from "../../debate/engine/ports.ts";

export interface RealToolsOptions {
  readonly settings?: Partial<Settings>;
  readonly roots?: readonly string[];
  readonly ca?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly redact?: (text: string) => string;
}

export type CallTool = (name: string, args: unknown) => Promise<ToolResult>;

export async function realTools(options: RealToolsOptions): Promise<CallTool> {
  const { settings = {}, roots = [], ca = "", env = {}, signal = new AbortController().signal } = options;
  const { redact = (text) => text.replaceAll("hunter2", "[REDACTED]") } = options;
  const ports = await createToolPorts({
    settings: { ...BARE_SETTINGS, ALLOWED_PROJECT_ROOTS: roots, REQUESTS_CA_BUNDLE: ca, SSL_CERT_FILE: "" },
    clock: systemClock,
    redact,
    env,
  });
  const tools = createTools({ ...BARE_SETTINGS, ...settings }, ports);
  return async (name, args) => {
    const tool = tools.find((candidate) => candidate.name === name);
    if (tool === undefined) throw new Error(`No tool ${name}`);
    return await tool.run(args, { signal, runId: "run" });
  };
}

export async function temporaryFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await Deno.realPath(await Deno.makeTempDir({ prefix: "gateway-debate-" }));
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}
