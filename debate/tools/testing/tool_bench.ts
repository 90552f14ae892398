import { FakeClock } from "@gateway/shared/testing";
import { loadSettings } from "../../settings/config.ts";
import { createTools } from "../catalogue.ts";
import type { HttpAnswer, HttpRequest, ToolPorts } from "../define_tool.ts";
import type { ProgramRequest, ProgramResult } from "../run_program.ts";
import type { Tool, ToolContext, ToolResult } from "../../engine/ports.ts";

/** Settings without any configured backend. */
export const BARE_SETTINGS = loadSettings({ env: { HOME: "/home/op" }, workingFolder: "/" });

/** Ports that record requests and give scripted answers. */
export class FakePorts implements ToolPorts {
  readonly clock = new FakeClock();
  readonly requests: HttpRequest[] = [];
  readonly lookups: string[] = [];
  readonly runs: ProgramRequest[] = [];
  readonly env: Readonly<Record<string, string>> = {
    HOME: "/home/op",
    KUBECONFIG: "/kube",
    SSH_AUTH_SOCK: "/agent",
  };
  readonly redact = (text: string) => text.replaceAll("hunter2", "[REDACTED]");
  /** The results of successive lookups of a name. The last result is repeated. */
  addresses: Readonly<Record<string, readonly (readonly string[])[]>> = {};
  answer: (request: HttpRequest) => HttpAnswer | Promise<HttpAnswer> = () => textAnswer("ok");
  result: ProgramResult = { stopped: undefined, code: 0, stdout: "out\n", stderr: "" };
  explain: ToolPorts["explain"] = () => Promise.resolve(["Seq Scan"]);
  /** Real paths by path. */
  files: Readonly<Record<string, string>> = {};

  readonly http = {
    exchange: async (request: HttpRequest) => {
      this.requests.push(request);
      return await this.answer(request);
    },
    resolve: (host: string) => {
      const all = this.addresses[host] ?? [[]];
      const nth = this.lookups.filter((name) => name === host).length;
      this.lookups.push(host);
      return Promise.resolve(all[Math.min(nth, all.length - 1)] ?? []);
    },
  };

  readonly runProgram = (request: ProgramRequest) => {
    this.runs.push(request);
    return Promise.resolve(this.result);
  };

  readonly folders = {
    roots: () => Promise.resolve(["/srv/app"]),
    find: (path: string) => Promise.resolve(this.files[path]),
  };

  readonly exists = (path: string) => Promise.resolve(this.files[path] !== undefined);
}

/** A response with plain text. */
export function textAnswer(
  text: string,
  { status = 200, headers = {} }: { readonly status?: number; readonly headers?: Record<string, string> } =
    {},
): HttpAnswer {
  return {
    status,
    statusText: "",
    headers: { "content-type": "text/plain", ...headers },
    body: new TextEncoder().encode(text),
    isCut: false,
  };
}

/** A response with JSON. */
export function jsonAnswer(value: unknown, status = 200): HttpAnswer {
  return textAnswer(JSON.stringify(value), { status, headers: { "content-type": "application/json" } });
}

/** Calls a tool. */
export function call(
  tool: Tool | undefined,
  args: unknown,
  context: ToolContext = { signal: new AbortController().signal, runId: "run" },
): Promise<ToolResult> {
  if (tool === undefined) throw new Error("No such tool");
  return tool.run(args, context);
}

/** A tool with its server, which is at a private address. */
export function setUpBackend(name: string, setting: string, url: string) {
  const ports = new FakePorts();
  ports.addresses = { "back.test": [["10.0.0.9"]] };
  const tools = createTools({ ...BARE_SETTINGS, [setting]: url }, ports);
  return { ports, tool: tools.find((tool) => tool.name === name) };
}
