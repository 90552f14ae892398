import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import type { OpenAuthority } from "../authority/authority.ts";
import type { BrokerConfig } from "../config/config.ts";
import type { Runs } from "../request/records.ts";
import type { SshTimings } from "../ssh/run_command.ts";
import { createConnectSession } from "./connect_session.ts";
import { execInSession, type ExecRequest } from "./exec.ts";
import { watchRevocations } from "./kill_switch.ts";
import { type OpenPorts, type OpenRequest, openSession } from "./open.ts";
import { createRecordings } from "./recorder.ts";
import { SESSION_LIMITS, SessionRegistry } from "./registry.ts";
import { reportSessions } from "./report.ts";

/** The calls of agents. Each throws an `AppError` with a text that a caller may see. */
export type Sessions = ReturnType<typeof createSessions>;

export function createSessions(ports: OpenPorts, { track }: Pick<Runs, "track">) {
  const { registry } = ports;
  return {
    open: track((request: OpenRequest, signal) => openSession(ports, request, signal)),
    exec: track((request: ExecRequest, signal) => execInSession(ports, request, signal)),
    close: track(async ({ sessionId, caller }: Pick<ExecRequest, "sessionId" | "caller">) => {
      const session = registry.find(sessionId, caller, "unknown session");
      await registry.end(session, { outcome: "session_close" });
    }),
  };
}

interface StartSessionsPorts
  extends Omit<OpenPorts, "registry" | "connect" | "startRecording" | "sessionMaxSeconds"> {
  readonly logger: ServiceLogger;
  readonly metrics: Metrics;
  readonly timings: SshTimings;
  readonly runs: Runs;
  readonly signer: OpenAuthority["signer"];
}

export function startSessions(config: BrokerConfig, ports: StartSessionsPorts) {
  const { metrics, signer } = ports;
  const lifetimes = { idleSeconds: config.session_idle_seconds, maxSeconds: config.session_max_seconds };
  const registry = new SessionRegistry({ ...ports, lifetimes });
  metrics.gauge("broker_sessions_active", "Open sessions", () => registry.size);
  metrics.gauge("broker_sessions_limit", "Limit of open sessions", () => SESSION_LIMITS.total);
  const open = {
    ...ports,
    registry,
    connect: createConnectSession(ports),
    startRecording: createRecordings(config, ports),
    sessionMaxSeconds: lifetimes.maxSeconds,
  };
  const stop = new AbortController();
  const reaping = registry.reapUntil(stop.signal);
  const watching = signer && watchRevocations({
    ...ports,
    ...{ registry, signer: signer.client, brokerCn: signer.caller, seconds: config.revocation_poll_seconds },
  }, stop.signal);
  const reporting = signer && reportSessions({ ...ports, registry, signer: signer.client }, stop.signal);
  return {
    sessions: createSessions(open, ports.runs),
    /** Closes all sessions, each with its audit record. The caller cancels their commands first. */
    async close(): Promise<void> {
      stop.abort();
      await registry.closeAll();
      await Promise.all([reaping, watching, reporting]);
    },
  };
}
