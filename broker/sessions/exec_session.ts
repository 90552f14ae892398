import type { Clock } from "@gateway/shared/clock";
import type { SshConnection } from "../ssh/connect.ts";
import { runOn } from "../ssh/run_command.ts";
import type { SessionLink } from "./link.ts";

/** The mode `exec`: each command in a channel of its own. Nothing is recorded, and commands may overlap. */
export function createExecLink(connection: SshConnection, clock: Clock): SessionLink {
  return {
    get broken() {
      return connection.lost.aborted
        ? "the connection of this session is lost; close this session and open a new one"
        : undefined;
    },
    run: (command, { signal, stopsAtStdinEnd = false }) =>
      runOn(connection, { clock, command, pty: false, signal, stopsAtStdinEnd }),
    async close() {
      // Commands that have just been canceled tell the host to end them: that goes out first.
      await clock.sleep(0);
      await connection.close();
    },
  };
}
