/**
 * The listener.
 *
 * @module
 */
import { AppError, errorText } from "@gateway/shared/errors";
import type { Settings } from "../config.ts";
import type { DebateHandler } from "../app.ts";
import { isLoopback } from "./same_origin.ts";

/** A listener that answers. */
export interface RunningServer {
  /** Where, for a browser on this machine. */
  readonly url: string;
  /** Stops answering, and lets requests under way end; streams have to be ended first. */
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
): RunningServer {
  const stop = new AbortController();
  const server = listen(WEB_HOST, WEB_PORT, stop.signal, handler);
  const { hostname, port } = server.addr;
  return {
    url: `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`,
    async close() {
      const timer = setTimeout(() => stop.abort(), GRACE_MS);
      await server.shutdown().finally(() => clearTimeout(timer));
    },
  };
}

function listen(
  hostname: string,
  port: number,
  signal: AbortSignal,
  handler: DebateHandler,
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve(
      { hostname, port, signal, onListen: () => {} },
      (request, { remoteAddr }) => handler(request, remoteAddr.hostname),
    );
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot listen on ${hostname}:${port}: ${errorText(cause)}`, {
      cause,
    });
  }
}
