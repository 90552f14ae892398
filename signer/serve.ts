import type { AuditGate } from "@gateway/shared/audit/gate";
import { openServiceAudit } from "@gateway/shared/audit/service_audit";
import type { Clock } from "@gateway/shared/clock";
import { type Monitor, startMonitor } from "@gateway/shared/http/monitor";
import { type MtlsServer, startMtlsServer } from "@gateway/shared/http/mtls_server";
import { loadTlsMaterial } from "@gateway/shared/http/tls_material";
import type { ServiceLogger } from "@gateway/shared/log";
import { createMetrics } from "@gateway/shared/metrics";
import type { Random } from "@gateway/shared/random";
import { TokenBuckets } from "@gateway/shared/token_bucket";
import { createSignerApp } from "./app.ts";
import { loadSnapshot } from "./snapshot.ts";
import { SignerState, snapshotWarnings } from "./state.ts";

/** What a running signer is made of from outside. */
export interface SignerEnvironment {
  readonly configPath: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
}

/** A signer that answers requests. */
export interface RunningSigner {
  readonly state: SignerState;
  readonly address: MtlsServer["address"];
  /** Stops answering, lets requests under way end, and closes the audit log. */
  close(): Promise<void>;
}

/**
 * Starts a signer: config, policy and CA key, audit log, monitor, listener, in this order; whatever fails
 * ends it before it answers anything.
 *
 * @throws {AppError} `invalid_config` saying what to mend
 */
export async function startSigner(environment: SignerEnvironment): Promise<RunningSigner> {
  const { configPath, clock, random, logger } = environment;
  const load = () => loadSnapshot(configPath);
  const initial = await load();
  const { config } = initial;
  for (const warning of snapshotWarnings(initial)) logger.warn(warning);
  const tls = await loadTlsMaterial({
    cert: { key: "server_cert", path: config.server_cert },
    key: { key: "server_key", path: config.server_key },
    ca: { key: "client_ca", path: config.client_ca },
  });
  const metrics = createMetrics();
  let ready = false;
  await using opened = new AsyncDisposableStack();
  const gate: AuditGate = await openServiceAudit({ config, clock, metrics, logger });
  opened.defer(() => gate.close());
  const state = new SignerState({ initial, load, gate, logger });
  let monitor: Monitor | undefined;
  if (config.monitor_listen !== "") {
    monitor = await startMonitor({ listen: config.monitor_listen, isReady: () => ready, metrics });
    opened.defer(() => monitor?.close());
  }
  const handler = createSignerApp({
    state,
    gate,
    metrics,
    clock,
    random,
    logger,
    rateLimiter: new TokenBuckets({ clock }),
  });
  const server = await startMtlsServer({
    listen: config.listen,
    cert: tls.cert,
    key: tls.key,
    clientCa: tls.ca,
    handler,
    onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
  });
  opened.defer(() => server.close());
  ready = true;
  const closing = opened.move();
  return {
    state,
    address: server.address,
    close() {
      ready = false;
      return closing.disposeAsync();
    },
  };
}
