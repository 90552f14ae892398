import { every } from "@gateway/shared/clock";
import type { Runs } from "../request/records.ts";
import { execInSession, type ExecRequest, type Executed } from "./exec.ts";
import { type Opened, type OpenPorts, type OpenRequest, openSession } from "./open.ts";
import type { Lifetimes } from "./registry.ts";

/** A wish to end a session. */
interface CloseRequest {
  readonly caller: string;
  readonly sessionId: string;
}

/** The sessions of a broker. Every call throws an `AppError` with a text that a caller may see. */
export interface Sessions {
  open(request: OpenRequest, signal: AbortSignal): Promise<Opened>;
  exec(request: ExecRequest, signal: AbortSignal): Promise<Executed>;
  /** Ends a session, also when a command runs in it. */
  close(request: CloseRequest, signal: AbortSignal): Promise<void>;
}

/** Serves sessions; what runs in them is kept account of. */
export function createSessions(ports: OpenPorts, { track }: Pick<Runs, "track">): Sessions {
  const { registry } = ports;
  return {
    open: track((request, signal) => openSession(ports, request, signal)),
    exec: track((request, signal) => execInSession(ports, request, signal)),
    close: track(async ({ sessionId, caller }) => {
      const session = registry.find(sessionId, caller, "unknown session");
      await registry.end(session, { outcome: "session_close" });
    }),
  };
}

/** How often is looked for sessions to close, at least, in seconds. */
const REAP_SECONDS = 30;

/** Closes the sessions that have lived too long, until the signal is aborted. */
export function reapSessions(
  { registry, clock }: Pick<OpenPorts, "registry" | "clock">,
  lifetimes: Lifetimes,
  signal: AbortSignal,
): Promise<void> {
  const seconds = Math.min(REAP_SECONDS, lifetimes.idleSeconds, lifetimes.maxSeconds);
  return every({ clock, seconds, signal }, () => registry.reap());
}
