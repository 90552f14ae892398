/**
 * The listener.
 *
 * @module
 */
import { type Clock, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { type ListenerOptions, startPlainServer, type UnknownPeer } from "@gateway/shared/http";
import type { Settings } from "../settings/config.ts";
import type { DebateHandler } from "./app.ts";
import { isLoopback } from "./same_origin.ts";

interface RunningServer {
  /** Its URL for a browser on this machine. */
  readonly url: string;
  /**
   * Stops accepting requests and waits for those in progress; streams have to be ended first. Requests that
   * take longer than the grace period end with the process.
   */
  close(): Promise<void>;
}

interface ServerPorts extends Pick<ListenerOptions<UnknownPeer>, "onError"> {
  readonly clock: Clock;
}

const GRACE_MS = 5000;

/**
 * Returns whether the settings let everybody in.
 *
 * @throws {AppError} `invalid_config` when strangers could use the server
 */
export function checkExposure(
  { WEB_HOST, WEB_USERNAME, WEB_ALLOW_OPEN }: Pick<Settings, "WEB_HOST" | "WEB_USERNAME" | "WEB_ALLOW_OPEN">,
): void {
  if (WEB_USERNAME !== "" || WEB_ALLOW_OPEN || isLoopback(WEB_HOST)) return;
  throw new AppError(
    "invalid_config",
    `Cannot listen on ${
      JSON.stringify(WEB_HOST)
    } without credentials: set WEB_USERNAME and WEB_PASSWORD, or ` +
      "WEB_HOST=127.0.0.1, or WEB_ALLOW_OPEN=true if something else keeps strangers out",
  );
}

/**
 * Listens.
 *
 * @throws {AppError} `invalid_config` when it cannot
 */
export async function startServer(
  { WEB_HOST, WEB_PORT }: Pick<Settings, "WEB_HOST" | "WEB_PORT">,
  handler: DebateHandler,
  { clock, onError }: ServerPorts,
): Promise<RunningServer> {
  const host = WEB_HOST.includes(":") ? `[${WEB_HOST}]` : WEB_HOST;
  const server = await startPlainServer({ listen: `${host}:${WEB_PORT}`, handler, onError });
  return {
    url: `http://${host}:${server.address.port}`,
    async close() {
      await within({ clock, ms: GRACE_MS }, server.close()).catch(() => {});
    },
  };
}
