/**
 * The broker, which receives the requests of agents. See README.md for its frontends, files and permissions.
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { findExposedFiles } from "@gateway/shared/files";
import { configureLogging, getServiceLogger } from "@gateway/shared/service/log";
import { describeVersion, exitCodeOf, waitForStop } from "@gateway/shared/service";
import { type CommandLine, parseCommandLine, USAGE } from "./config/command_line.ts";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "./config/config.ts";
import { brokerUsedFiles } from "./config/permissions.ts";

/** Runs `gateway`, and returns its exit code. `init` is absent in a program that has only the broker. */
export async function runGateway(
  args: readonly string[],
  init?: (args: readonly string[]) => Promise<number>,
): Promise<number> {
  const command = parseCommandLine(args);
  switch (command.kind) {
    case "help":
      writeAllSync(Deno.stderr, USAGE);
      return 0;
    case "version":
      writeAllSync(Deno.stdout, `${describeVersion({ verbose: command.verbose })}\n`);
      return 0;
    case "misused":
      return misused(command.problem);
    case "init":
      return await init?.(command.args) ?? misused("this program has no init; fix: broker-ctl init");
    case "connect": {
      const { connect } = await import("./connect.ts");
      return await connect(command.socket);
    }
    case "serve":
      return await exitCodeOf(() => serve(command));
    default:
      return command satisfies never;
  }
}

function misused(problem: string): number {
  writeAllSync(Deno.stderr, `gateway: ${problem}\n\n${USAGE}`);
  return 2;
}

async function serve(
  { frontend, config: path, logFormat }: Extract<CommandLine, { kind: "serve" }>,
): Promise<void> {
  configureLogging(logFormat);
  const logger = getServiceLogger("broker");
  const ports = {
    clock: systemClock,
    random: systemRandom,
    logger,
    readEnv: (name: string) => Deno.env.get(name),
  };
  const stopped = waitForStop();
  const load = async () => {
    const unsupported = UNSUPPORTED_BROKER_KEYS;
    const config = await loadConfig({ path, what: "broker config", schema: brokerConfig, unsupported });
    const files = brokerUsedFiles(config, { configPath: path, frontend });
    for (const exposed of await findExposedFiles(files)) logger.warn(exposed);
    return config;
  };
  const [config, { serveHttp, serveMcp, serveMcpHttp }] = await Promise.all([load(), import("./serve.ts")]);
  switch (frontend) {
    case "serve-http":
      return await serveHttp(config, ports, stopped);
    case "serve-mcp": {
      const streams = { input: Deno.stdin.readable, output: Deno.stdout.writable };
      return await serveMcp(config, { ...ports, streams }, stopped);
    }
    case "serve-mcp-http":
      return await serveMcpHttp(config, { ...ports, fetch }, stopped);
    default:
      return frontend satisfies never;
  }
}

if (import.meta.main) Deno.exit(await runGateway(Deno.args));
