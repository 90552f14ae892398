import type { BrokerFrontend } from "@gateway/broker/permissions";
import type { Service } from "./service_permissions.ts";

/** What the command line of a service says, its words joined by blanks as `ps` shows them. */
export interface ServiceCommandLine {
  readonly service: Service;
  /** Unused for all but the broker. */
  readonly frontend: BrokerFrontend;
  /** What stands before its main module; empty for an executable of its own. */
  readonly runtime: string;
  /** The path of its module or executable, as far as no blank is in it. */
  readonly program: string;
  /** What stands behind `--config`: the file, and what else the service is told. */
  readonly config: string;
  /** Whether another service can be read in it too. */
  readonly isAmbiguous: boolean;
}

/**
 * What services are started as: from source and from a package `signer/main.js`, else a program of that name. A mere word
 * of another program is none.
 */
const COMMAND =
  /(?<=^|[ /])(?<name>signer|control[-_]plane|broker|gateway|mcp-broker(?:-http)?)(?:\/main\.[jt]s|(?<! \k<name>))(?: (?<frontend>serve-(?:http|mcp-http|mcp)))? --?config[ =]/g;

const FRONTENDS: Readonly<Record<string, BrokerFrontend>> = {
  "mcp-broker": "serve-mcp",
  "mcp-broker-http": "serve-mcp-http",
};

/** Reads a command line; undefined for what is no service. */
export function readServiceCommand(args: string): ServiceCommandLine | undefined {
  const [match, ...more] = args.matchAll(COMMAND);
  if (match === undefined) return undefined;
  const { name = "", frontend } = match.groups ?? {};
  const before = args.slice(0, match.index);
  // The folder of the module is the end of what stands before it.
  const folder = before.lastIndexOf(" ") + 1;
  return {
    service: name === "signer" ? "signer" : /^control/.test(name) ? "control-plane" : "broker",
    frontend: frontend as BrokerFrontend | undefined ?? FRONTENDS[name] ?? "serve-http",
    runtime: before.slice(0, folder).trimEnd(),
    program: (before.slice(folder) + match[0]).replace(/ .*/s, ""),
    config: args.slice(match.index + match[0].length),
    isAmbiguous: more.length > 0,
  };
}

/** Whether it is told of this config. */
export function isToldOf({ config }: ServiceCommandLine, path: string): boolean {
  return config === path || config.startsWith(`${path} -`);
}
