import type { Clock, Random } from "@gateway/shared/clock";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import { createRedactStreams } from "@gateway/shared/redact";
import type { OpenAuthority } from "../authority/authority.ts";
import type { BrokerConfig } from "../config/config.ts";
import type { Events, Runs } from "../request/records.ts";
import { createRecordingFile } from "./recording_file.ts";
import type { SshTimings } from "../ssh/run_command.ts";
import { createConnectSession } from "./connect_session.ts";
import { watchRevocations } from "./kill_switch.ts";
import type { PreflightPorts } from "./preflight.ts";
import { createRecordings, type StartRecording } from "./recordings.ts";
import { SESSION_LIMITS, SessionRegistry } from "./registry.ts";
import { createSessions, reapSessions, type Sessions } from "./sessions.ts";

interface StartSessionsPorts extends PreflightPorts {
  readonly events: Events;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  readonly metrics: Metrics;
  readonly timings: SshTimings;
  readonly runs: Runs;
  /** Who says what is frozen; nobody in local mode. */
  readonly signer: OpenAuthority["signer"];
}

interface StartedSessions {
  readonly sessions: Sessions;
  /** Closes them all, each with its record; what runs in them has to have been canceled. */
  close(): Promise<void>;
}

/** Serves sessions as the config says, closes those that have lived too long and kills those that are frozen. */
export function startSessions(config: BrokerConfig, ports: StartSessionsPorts): StartedSessions {
  const { clock, metrics, random } = ports;
  const lifetimes = { idleSeconds: config.session_idle_seconds, maxSeconds: config.session_max_seconds };
  const registry = new SessionRegistry({ ...ports, lifetimes });
  metrics.gauge("broker_sessions_active", "Open sessions", () => registry.size);
  metrics.gauge("broker_sessions_limit", "How many sessions there may be", () => SESSION_LIMITS.total);
  const connect = createConnectSession({ clock, random, timings: ports.timings });
  const open = {
    ...ports,
    registry,
    connect,
    startRecording: recordings(config, ports),
    sessionMaxSeconds: lifetimes.maxSeconds,
  };
  const stop = new AbortController();
  const reaping = reapSessions({ registry, clock }, lifetimes, stop.signal);
  const watching = watch(config, ports, { registry, signal: stop.signal });
  return {
    sessions: createSessions(open, ports.runs),
    async close() {
      stop.abort();
      await registry.closeAll();
      await Promise.all([reaping, watching]);
    },
  };
}

function recordings(
  config: BrokerConfig,
  { clock, metrics, logger }: StartSessionsPorts,
): StartRecording | undefined {
  const failures = metrics.counter("recording_write_errors_total", "Failures to record sessions");
  const folder = config.session_recording_dir;
  if (folder === "") return undefined;
  return createRecordings({
    createFile: (sessionId) => createRecordingFile(folder, sessionId),
    strict: config.session_recording_strict,
    clock,
    openRedaction: createRedactStreams(config.redact),
    onFailure(error) {
      failures.inc();
      logger.warn("Cannot record session", { error });
    },
  });
}

function watch(
  config: BrokerConfig,
  { signer, clock, metrics, logger }: StartSessionsPorts,
  { registry, signal }: { readonly registry: SessionRegistry; readonly signal: AbortSignal },
): Promise<void> {
  if (signer === undefined) return Promise.resolve();
  const failures = metrics.counter(
    "broker_revocation_poll_errors_total",
    "Polls of what is frozen that failed",
  );
  const success = metrics.gauge(
    "broker_revocation_poll_last_success_timestamp_seconds",
    "When what is frozen was last known, or the start",
  );
  const mark = () => success.set(Math.floor(clock.now() / 1000));
  mark();
  return watchRevocations({
    signer: signer.client,
    brokerCn: signer.caller,
    registry,
    clock,
    seconds: config.revocation_poll_seconds,
    onPolled: mark,
    onUnsupported: () =>
      logger.warn(
        "the control plane has no /v1/revocations: a freeze does not end running sessions; " +
          "the signer still rejects each new command of a frozen caller or end user",
      ),
    onError(error) {
      failures.inc();
      logger.warn("Cannot learn what is frozen, or cannot kill its sessions; polling continues", { error });
    },
  }, signal);
}
