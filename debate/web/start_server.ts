/**
 * The listener.
 *
 * @module
 */
import type { Clock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { within } from "@gateway/shared/within";
import type { Settings } from "../config.ts";
import type { DebateHandler } from "../app.ts";
import { isLoopback } from "./same_origin.ts";

/** A listener that answers. */
export interface RunningServer {
  /** Where, for a browser on this machine. */
  readonly url: string;
  /**
   * Stops answering, and lets requests under way end; streams have to be ended first. What takes longer than the
   * grace ends with the process.
   */
  close(): Promise<void>;
}

const GRACE_MS = 5000;

/**
 * Says whether the settings let everybody in.
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
export function startServer(
  { WEB_HOST, WEB_PORT }: Pick<Settings, "WEB_HOST" | "WEB_PORT">,
  handler: DebateHandler,
  clock: Clock,
): RunningServer {
  const server = listen(WEB_HOST, WEB_PORT, handler);
  const { hostname, port } = server.addr;
  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`,
    async close() {
      // Not ended by a signal: a server that is shutting down throws at one, where nobody can catch it.
      await within({ clock, ms: GRACE_MS }, server.shutdown()).catch(() => {});
    },
  };
}

function listen(
  hostname: string,
  port: number,
  handler: DebateHandler,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve(
      { hostname, port, onListen: () => {} },
      (request, { remoteAddr }) => handler(request, remoteAddr.hostname),
    );
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot listen on ${hostname}:${port}: ${errorText(cause)}`, {
      cause,
    });
  }
}
