import type { Clock, Random } from "@gateway/shared/clock";
import type { SessionMode } from "@gateway/shared/wire";
import { connectRoute, type HopLogins, type SshConnection } from "../ssh/connect.ts";
import { DEFAULT_LIMITS } from "../ssh/failures.ts";
import { runOn, type SshTimings } from "../ssh/run_command.ts";
import type { SessionLink } from "./session.ts";
import { openShellChannel, SHELL_LIMITS, ShellLink } from "./shell_session.ts";

export interface ConnectSessionOptions {
  readonly hops: HopLogins;
  readonly mode: SessionMode;
  readonly elevationPrefix: string;
  readonly signal: AbortSignal;
}

/** @throws {AppError} `upstream_failure` or `canceled`; nothing is left open then */
export type ConnectSession = (options: ConnectSessionOptions) => Promise<SessionLink>;

export function createConnectSession({ clock, random, timings }: {
  readonly clock: Clock;
  readonly random: Random;
  readonly timings: SshTimings;
}): ConnectSession {
  return async ({ hops, mode, elevationPrefix, signal }) => {
    const connection = await timings.connect.measure(() =>
      connectRoute(hops, { clock, limits: DEFAULT_LIMITS, signal })
    );
    try {
      const command = elevationPrefix === "" ? "/bin/sh" : `${elevationPrefix} -- /bin/sh`;
      const limits = { ...DEFAULT_LIMITS, ...SHELL_LIMITS };
      const link = mode === "exec" ? createExecLink(connection, clock) : await ShellLink.start({
        ...{ mode, clock, random, limits },
        open: (onOutput, signal) =>
          openShellChannel(connection, { clock, command, pty: mode === "pty", signal, onOutput }),
        close: () => connection.close(),
      }, signal);
      return {
        get broken() {
          return link.broken;
        },
        run: (command, options) => timings.exec.measure(() => link.run(command, options)),
        close: () => link.close(),
      };
    } catch (error) {
      await connection.close();
      throw error;
    }
  };
}

/** The mode `exec`: each command in its own channel. Nothing is recorded, and commands may overlap. */
export function createExecLink(connection: SshConnection, clock: Clock): SessionLink {
  return {
    get broken() {
      return connection.lost.aborted
        ? "the connection of this session is lost; close this session and open a new one"
        : undefined;
    },
    run: (command, { signal, stopsAtStdinEnd = false, output }) =>
      runOn(connection, {
        ...{ clock, command, pty: false, signal, stopsAtStdinEnd },
        ...(output === undefined ? {} : { output }),
      }),
    async close() {
      // Send the signals of commands that have just been canceled first.
      await clock.sleep(0);
      await connection.close();
    },
  };
}
