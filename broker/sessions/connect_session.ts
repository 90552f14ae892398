import type { Clock, Random } from "@gateway/shared/clock";
import type { SessionMode } from "@gateway/shared/wire";
import { connectRoute, type HopLogins, type SshConnection } from "../ssh/connect.ts";
import { DEFAULT_LIMITS } from "../ssh/failures.ts";
import { runOn, type SshTimings } from "../ssh/run_command.ts";
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

interface ConnectPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly timings: SshTimings;
}

export function createConnectSession(ports: ConnectPorts): ConnectSession {
  return async (options) => {
    const { hops, signal } = options;
    const { clock, timings } = ports;
    const connection = await timings.connect.measure(() =>
      connectRoute(hops, { clock, limits: DEFAULT_LIMITS, signal })
    );
    try {
      return timed(await startMode(connection, ports, options), timings);
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}

function timed(link: SessionLink, { exec }: SshTimings): SessionLink {
  return {
    get broken() {
      return link.broken;
    },
    run: (command, options) => exec.measure(() => link.run(command, options)),
    close: () => link.close(),
  };
}

async function startMode(
  connection: SshConnection,
  { clock, random }: ConnectPorts,
  { mode, elevationPrefix, signal }: ConnectSessionOptions,
): Promise<SessionLink> {
  if (mode === "exec") return createExecLink(connection, clock);
  const command = elevationPrefix === "" ? SHELL : `${elevationPrefix} -- ${SHELL}`;
  const limits = { ...DEFAULT_LIMITS, ...SHELL_LIMITS };
  return await ShellLink.start({
    mode,
    clock,
    random,
    limits,
    open: (onOutput, signal) =>
      openShellChannel(connection, { clock, command, pty: mode === "pty", limits, signal, onOutput }),
    close: () => connection.close(),
  }, signal);
}

const SHELL = "/bin/sh";

/** The mode `exec`: each command in a channel of its own. Nothing is recorded, and commands may overlap. */
export function createExecLink(connection: SshConnection, clock: Clock): SessionLink {
  return {
    get broken() {
      return connection.lost.aborted
        ? "the connection of this session is lost; close this session and open a new one"
        : undefined;
    },
    run: (command, { signal, stopsAtStdinEnd = false, output }) =>
      runOn(connection, {
        clock,
        command,
        pty: false,
        signal,
        stopsAtStdinEnd,
        ...(output === undefined ? {} : { output }),
      }),
    async close() {
      // Commands that have just been canceled tell the host to end them: that goes out first.
      await clock.sleep(0);
      await connection.close();
    },
  };
}
