import { AppError } from "@gateway/shared/errors";
import { LOG_FORMAT_HELP, type LogFormat, parseServiceArguments } from "@gateway/shared/service";
import { BROKER_FRONTENDS, type BrokerFrontend } from "./permissions.ts";

export type CommandLine =
  | {
    readonly kind: "serve";
    readonly frontend: BrokerFrontend;
    readonly config: string;
    readonly logFormat: LogFormat;
  }
  | { readonly kind: "connect"; readonly socket: string }
  | { readonly kind: "init"; readonly args: readonly string[] }
  | { readonly kind: "version"; readonly verbose: boolean }
  | { readonly kind: "help" }
  | { readonly kind: "misused"; readonly problem: string };

export const USAGE = `Usage: gateway <command> [options]

Run a broker, which executes actions on hosts and clusters for AI agents.

Commands:
  serve-http         Serve POST /v1/ssh_run over mTLS, and MCP on Unix sockets.
  serve-mcp          Serve MCP over standard input and output.
  serve-mcp-http     Serve MCP over HTTPS with OAuth, and on Unix sockets.
  connect <socket>   Connect standard input and output to a Unix socket.
  init               Create an installation (same as broker-ctl init).
  version            Show the version; with --verbose also toolchain and platform.

Options:
  --config <file>     config file (default: config.json)
${LOG_FORMAT_HELP}
  -h, --help          show help

Exit codes: 0 success, 1 failure, 2 usage error.
`;

const DEFAULT_CONFIG = "config.json";

export function parseCommandLine(args: readonly string[]): CommandLine {
  const [command = "", ...rest] = args;
  if (command === "help" || command === "-h" || command === "--help") return { kind: "help" };
  if (command === "init") return { kind: "init", args: rest };
  if (command === "connect") {
    const [socket = "", ...more] = rest;
    if (socket === "-h" || socket === "-help" || socket === "--help") return { kind: "help" };
    if (socket !== "" && !socket.startsWith("-") && more.length === 0) return { kind: "connect", socket };
    return { kind: "misused", problem: "connect requires the path of one socket" };
  }
  const isOption = command.startsWith("-");
  if (command === "") return { kind: "misused", problem: "a command is required" };
  if (!isOption && command !== "version" && !isFrontend(command)) {
    return { kind: "misused", problem: `unknown command ${JSON.stringify(command)}` };
  }
  let options: ReturnType<typeof parseServiceArguments>;
  try {
    options = parseServiceArguments(isOption ? args : rest, { defaultConfig: DEFAULT_CONFIG });
  } catch (error) {
    if (error instanceof AppError && error.code === "invalid_request") {
      return { kind: "misused", problem: error.message };
    }
    throw error;
  }
  if (options.help) return { kind: "help" };
  if (options.version || command === "version") return { kind: "version", verbose: options.verbose };
  const { config, logFormat } = options;
  if (isFrontend(command)) return { kind: "serve", frontend: command, config, logFormat };
  return { kind: "misused", problem: "a command is required" };
}

function isFrontend(text: string): text is BrokerFrontend {
  return BROKER_FRONTENDS.some((frontend) => frontend === text);
}
