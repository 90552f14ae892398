import { pageHeaders, renderUnauthenticatedPage } from "./pages/page.ts";
import { openServiceAudit } from "@gateway/shared/audit";
import type { Clock, Elapsed, Random } from "@gateway/shared/clock";
import { loadConfig, signerUrls } from "@gateway/shared/config";
import { findExposedFiles } from "@gateway/shared/files";
import {
  keepFresh,
  keepListenerFresh,
  ListenerMetrics,
  loadListenerTls,
  loadSignerTls,
  type MtlsServer,
  openUpstreams,
  startMtlsServer,
  UpstreamWatch,
} from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { createMetrics } from "@gateway/shared/service/metrics";
import { type ServiceLogger, VERSION } from "@gateway/shared/service";
import { createRedactor } from "@gateway/shared/redact";
import { createControlPlaneApp } from "./app.ts";
import { ApprovalRegistry } from "./approvals/registry.ts";
import { Guardrails } from "./guardrails/guardrails.ts";
import { configWarnings, type ControlPlaneConfig, controlPlaneConfig } from "./config/config.ts";
import { createNotifier, notificationMs } from "./notify/notifier.ts";
import { controlPlaneUsedFiles } from "./config/permissions.ts";
import { SignerClient } from "./routes/signer_client.ts";
import { openPostgresControlStore } from "./state/postgres.ts";
import { openSqliteControlStore } from "./state/sqlite.ts";
import type { ControlStore, SharedApprovals } from "./state/store.ts";
import { ALONE, type Epochs, SharedGroup } from "@gateway/shared/instances";
import { isPostgresUrl, type StateWarner } from "@gateway/shared/state";

/** What a running control plane is made of from outside. */
interface ControlPlaneEnvironment {
  readonly configPath: string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  readonly random: Random;
  /** The machine's name; asked for where control planes share a database and the config has no name for this one. */
  readonly readHostname: () => string;
  /** The value of an environment variable; asked for what the config names. */
  readonly readEnv: (name: string) => string | undefined;
  readonly fetch: typeof fetch;
  readonly logger: ServiceLogger;
}

/** A control plane that answers requests. */
interface RunningControlPlane {
  readonly config: ControlPlaneConfig;
  readonly address: MtlsServer["address"];
  /** How many approvals of an earlier process it knows. */
  readonly restored: number;
  /** Ends the waits, stops answering, lets requests under way end, and closes the audit log. */
  close(): Promise<void>;
}

/** As many as one broker may have requests under way; each connection is kept open. */
const SIGNER_CONNECTIONS = 64;

/**
 * Starts a control plane: config, credentials, audit log, state, monitor, listener, in this order; whatever fails
 * ends it before it answers anything. The signer need not be there yet.
 *
 * @throws {AppError} `invalid_config` saying what to mend
 */
export async function startControlPlane(environment: ControlPlaneEnvironment): Promise<RunningControlPlane> {
  const { configPath, clock, random, logger } = environment;
  const config = await loadConfig({
    path: configPath,
    what: "control plane config",
    schema: controlPlaneConfig,
  });
  for (const warning of configWarnings(config)) logger.warn(warning);
  for (const exposed of await findExposedFiles(controlPlaneUsedFiles(config, configPath))) {
    logger.warn(exposed);
  }
  const tls = await loadListenerTls(config);
  const metrics = createMetrics();
  await using opened = new AsyncDisposableStack();
  const signerTls = await loadSignerTls(config.signer);
  const signers = openUpstreams({
    ...{ clock, what: "the signer", urls: signerUrls(config.signer), ...signerTls, random },
  });
  opened.defer(() => signers.close());
  // A list of 10,000 hosts is about 2 MB.
  const client = signers.client({ maxConnections: SIGNER_CONNECTIONS, maxResponseBytes: 8 << 20 });
  const probe = signers.client({ maxConnections: 1 });
  const gate = await openServiceAudit({ config, clock, metrics, logger });
  opened.defer(() => gate.close());
  const { store, group, shared } = await openState(config, environment);
  const instances = group ?? ALONE;
  // What instances compare is of one clock.
  const time = group?.clock ?? clock;
  group?.addMetrics(metrics);
  opened.defer(() => store.close());
  opened.defer(() => group?.leave());
  const storeErrors = metrics.counter(
    "statedb_errors_total",
    "Changes that the state database could not make",
  );
  const onStoreError = () => storeErrors.inc();
  const registry = await ApprovalRegistry.open({
    store,
    clock: time,
    random,
    logger,
    timeoutSeconds: config.approval.timeout_seconds,
    maxPendingPerCaller: config.approval.max_pending_per_caller,
    notifyMs: notificationMs(config.approval),
    onStoreError,
  });
  opened.defer(() => registry.close());
  if (group !== undefined) {
    opened.defer(() => group.stop());
    await group.start(async (link, confirm) => {
      let epochs: Epochs | undefined;
      await registry.takeOver(async (createdAfter) => {
        const content = await shared.load(link, createdAfter);
        await confirm();
        epochs = content.epochs;
        return content.approvals;
      });
      return epochs ?? group.seen;
    });
  }
  const restored = registry.list().length;
  const guardrails = await Guardrails.open({
    config: config.behavior,
    store,
    clock: time,
    logger,
    onStoreError,
  });
  opened.defer(() => guardrails.close());
  const notifier = createNotifier({
    config: config.approval,
    redact: createRedactor(config.redact),
    store,
    find(id) {
      const approval = registry.findFirst(id);
      return approval && registry.describe(approval);
    },
    fetch: environment.fetch,
    clock: time,
    logger,
    metrics,
    secret: webhookSecret(config, environment.readEnv),
  });
  opened.defer(() => notifier.close());
  let ready = false;
  const stopping = new AbortController();
  if (config.monitor_listen !== "") {
    const { server_cert, client_ca, signer } = config;
    const upstream = new UpstreamWatch({ what: "the signer", client: probe, clock });
    const monitor = await startServiceMonitor({
      service: "control-plane",
      listen: config.monitor_listen,
      isReady: () => ready && gate.isOpen,
      metrics,
      certificates: {
        server_cert,
        client_ca,
        "signer.client_cert": signer.client_cert,
        "signer.ca": signer.ca,
      },
      upstream,
      problem: () => instances.problem ?? upstream.problem(),
      clock,
    });
    opened.defer(() => monitor.close());
  }
  const asking = metrics.histogram(
    "controlplane_signer_duration_seconds",
    "What the signer takes to answer",
    "exchange",
  );
  const traffic = new ListenerMetrics(metrics);
  const handler = createControlPlaneApp({
    config,
    registry,
    instances,
    guardrails,
    notifier,
    signer: new SignerClient({
      request: (request) => asking.measure(() => client.request(request), ({ status }) => resultOf(status)),
    }),
    gate,
    metrics,
    clock: time,
    logger,
    stopping: stopping.signal,
  });
  const server = await startMtlsServer({
    listen: config.listen,
    ...tls,
    isReserved: (caller) => config.approval.callers.includes(caller),
    handler,
    unauthenticatedPage: ({ status, title, detail }) =>
      new Response(renderUnauthenticatedPage({ title, detail, now: clock.now() }), {
        status,
        headers: pageHeaders(),
      }),
    onAnswer: traffic.onAnswer,
    onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
  });
  traffic.watch(server);
  opened.defer(() => server.close());
  const fresh = { clock, signal: stopping.signal, logger };
  const kept = [
    keepListenerFresh({ ...fresh, current: tls }, config, server),
    keepFresh({ ...fresh, what: "the certificates for the signer", current: signerTls }, {
      load: () => loadSignerTls(config.signer),
      take: (tls) => signers.renew(tls),
    }),
  ];
  opened.defer(async () => {
    stopping.abort();
    await Promise.all(kept);
  });
  ready = true;
  const closing = opened.move();
  return {
    config,
    address: server.address,
    restored,
    close() {
      ready = false;
      stopping.abort();
      return closing.disposeAsync();
    },
  };
}

function resultOf(status: number): string {
  if (status >= 500) return "failed";
  return status >= 400 ? "refused" : "ok";
}

/** The state, and the group of those that share it where it is shared. */
type OpenState =
  | { readonly store: ControlStore; readonly group?: undefined; readonly shared?: undefined }
  | { readonly store: ControlStore; readonly group: SharedGroup; readonly shared: SharedApprovals };

async function openState(
  config: ControlPlaneConfig,
  { clock, elapsed, random, logger, readHostname }: ControlPlaneEnvironment,
): Promise<OpenState> {
  const { state_db } = config;
  const warn: StateWarner = (message, fields) => logger.warn(message, fields);
  if (!isPostgresUrl(state_db)) return { store: openSqliteControlStore({ path: state_db, warn }) };
  const name = config.instance === "" ? readHostname() : config.instance;
  const store = await openPostgresControlStore({ settings: config, clock, warn });
  const newSession = () => random.bytes(16).toHex();
  try {
    const group = await SharedGroup.join({
      ...{ shared: store.shared, what: "control plane", name, version: VERSION, newSession },
      ...{ clock, elapsed, logger },
    });
    return { store, group, shared: store.shared };
  } catch (error) {
    await store.close();
    throw error;
  }
}

function webhookSecret(
  { approval }: ControlPlaneConfig,
  readEnv: ControlPlaneEnvironment["readEnv"],
): string | undefined {
  const { notifier, webhook_secret_env } = approval;
  return notifier === "log" || webhook_secret_env === "" ? undefined : readEnv(webhook_secret_env);
}
