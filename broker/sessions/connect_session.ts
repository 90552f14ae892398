import type { Random } from "@gateway/shared/random";
import type { SessionMode } from "@gateway/shared/wire/sign";
import type { SshConnection } from "../ssh/connect.ts";
import { connectRoute, type HopLogins } from "../ssh/connect_route.ts";
import { DEFAULT_LIMITS } from "../ssh/limits.ts";
import { createExecLink } from "./exec_session.ts";
import type { SessionLink } from "./link.ts";
import { openShellChannel } from "./shell_channel.ts";
import { SHELL_LIMITS, ShellLink } from "./shell_session.ts";

/** Where a session leads, and how it runs commands there. */
export interface ConnectSessionOptions {
  readonly hops: HopLogins;
  readonly mode: SessionMode;
  /** For the shell of an elevated session; empty for none. */
  readonly elevationPrefix: string;
  readonly signal: AbortSignal;
}

/**
 * Connects a session.
 *
 * @throws {AppError} `upstream_failure` or `canceled`; nothing is left open then
 */
export type ConnectSession = (options: ConnectSessionOptions) => Promise<SessionLink>;

/** Connects sessions over SSH. */
export function createConnectSession(random: Random): ConnectSession {
  return async (options) => {
    const { hops, signal } = options;
    const connection = await connectRoute(hops, { limits: DEFAULT_LIMITS, signal });
    try {
      return await startMode(connection, random, options);
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}

async function startMode(
  connection: SshConnection,
  random: Random,
  { mode, elevationPrefix, signal }: ConnectSessionOptions,
): Promise<SessionLink> {
  if (mode === "exec") return createExecLink(connection);
  const command = elevationPrefix === "" ? SHELL : `${elevationPrefix} -- ${SHELL}`;
  const limits = { ...DEFAULT_LIMITS, ...SHELL_LIMITS };
  return await ShellLink.start({
    mode,
    random,
    limits,
    open: (onOutput) =>
      openShellChannel(connection, { command, pty: mode === "pty", limits, signal, onOutput }),
    close: () => connection.close(),
  }, signal);
}

const SHELL = "/bin/sh";
