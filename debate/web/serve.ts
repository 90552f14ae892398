import { type Clock, every, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { type ListenerOptions, startPlainServer, type UnknownPeer } from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { createDebateApp, type DebateHandler } from "./app.ts";
import type { LogLevel, Settings } from "../settings/config.ts";
import { estimateCost } from "../models/prices.ts";
import { AlertDesk, readAlerts } from "../alerts/desk.ts";
import { pageUrl, startAlertRun } from "./alert_handlers.ts";
import { openDebateParts, openFetch } from "../runs/debate_parts.ts";
import { loadTemplates, readBuiltinTemplates } from "../prompts/templates.ts";
import { openRunDirectory } from "../runs/run_directory.ts";
import { RunManager } from "../runs/manager.ts";
import { retain, RunStore } from "../runs/store.ts";
import { isLoopback } from "./guard.ts";
import { createRunMetrics } from "./metrics.ts";

/**
 * Starts a server. If a step fails, the server stops before it answers a request.
 *
 * @param log for the operator; messages never contain secrets
 */
export async function startDebateServer(
  settings: Settings,
  process: {
    readonly clock: Clock;
    readonly randomBytes: (length: number) => Uint8Array;
    readonly variables: Readonly<Record<string, string | undefined>>;
  },
  log: Readonly<Record<LogLevel, (message: string) => void>>,
) {
  const { clock, randomBytes } = process;
  const warn = log.WARNING;
  checkExposure(settings);
  const newId = (bytes: number) => randomBytes(bytes).toHex();
  const equipment = await openDebateParts(settings, { ...process, warn, isWatched: true });
  const { prices, providers, audit, toolset } = equipment;
  // The first page then need not wait for the check of programs and servers.
  const { metrics, observe, watch, measured } = createRunMetrics(
    (await toolset()).statuses.map(({ name }) => name),
  );
  const builtinTemplates = readBuiltinTemplates();

  await using opened = new AsyncDisposableStack();
  const directory = await openRunDirectory(settings.DATA_DIR);
  opened.defer(() => directory.close());
  const store = await RunStore.open({ directory, warn });
  opened.defer(() => audit.close());
  const manager = new RunManager(settings, {
    ...equipment,
    store,
    clock,
    newId,
    openModel: async (id) => measured(await providers.model(id)),
    observe,
    audit: audit.append,
    estimateCost: (totals, models) => estimateCost(totals, models, prices),
    warn,
    fail: log.ERROR,
  });
  const stopping = new AbortController();
  opened.defer(() => manager.close());
  const onError = (error: unknown, requestId: string) =>
    log.ERROR(`request ${requestId} failed: ${describe(error)}`);
  const ports = {
    ...equipment,
    settings,
    clock,
    store,
    manager,
    loadTemplates: () => loadTemplates(settings.PROMPTS_DIR, builtinTemplates),
    onError,
    newId,
    randomBytes,
    stopping: stopping.signal,
  };
  const alerts = new AlertDesk({
    ...ports,
    directory,
    start: (alert) => startAlertRun(ports, alert),
    fetch: await openFetch(settings),
    urlOf: (runId) => pageUrl(settings, runId),
    log: warn,
  }, await readAlerts(directory));
  opened.defer(() => alerts.idle());
  watch(manager, alerts);
  const app = createDebateApp({ ...ports, alerts });
  const handler: DebateHandler = async (request, remote) => {
    const response = await app(request, remote);
    log.DEBUG(`${request.method} ${new URL(request.url).pathname}: ${response.status}`);
    return response;
  };
  if (settings.MONITOR_LISTEN !== "") {
    const isReady = () => !stopping.signal.aborted;
    const listen = settings.MONITOR_LISTEN;
    const monitor = await startServiceMonitor({
      ...{ service: "debate", listen, isReady, metrics, clock, certificates: {} },
    });
    opened.defer(() => monitor.close());
  }
  const server = await startServer(settings, handler, { clock, onError });
  opened.defer(() => server.close());
  const alarmed = every({ clock, seconds: ALERT_SECONDS, signal: stopping.signal }, () => alerts.work());
  opened.defer(() => alarmed);
  const { RETENTION_DAYS: days } = settings;
  const retained = retain({ store, days, clock, signal: stopping.signal, log: log.INFO });
  opened.defer(() => retained);
  const closing = opened.move();
  return {
    url: server.url,
    close() {
      stopping.abort();
      return closing.disposeAsync();
    },
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const cause = error.cause instanceof Error ? ` (${error.cause.name}: ${error.cause.message})` : "";
  return `${error.name}: ${error.message}${cause}`;
}

const GRACE_MS = 5000;
/** The pause between two checks for ended runs of alerts, in seconds. */
const ALERT_SECONDS = 2;

function checkExposure({ WEB_HOST, WEB_USERNAME, WEB_ALLOW_OPEN }: Settings): void {
  if (WEB_USERNAME !== "" || WEB_ALLOW_OPEN || isLoopback(WEB_HOST)) return;
  const fix = "set WEB_USERNAME and WEB_PASSWORD, or WEB_HOST=127.0.0.1, " +
    "or WEB_ALLOW_OPEN=true if a proxy or firewall rejects unauthenticated clients";
  const text = `Cannot listen on ${JSON.stringify(WEB_HOST)} without credentials: ${fix}`;
  throw new AppError("invalid_config", text);
}

export async function startServer(
  { WEB_HOST, WEB_PORT }: Pick<Settings, "WEB_HOST" | "WEB_PORT">,
  handler: DebateHandler,
  { clock, onError }: Pick<ListenerOptions<UnknownPeer>, "onError"> & { readonly clock: Clock },
) {
  const host = WEB_HOST.includes(":") ? `[${WEB_HOST}]` : WEB_HOST;
  const server = await startPlainServer({ listen: `${host}:${WEB_PORT}`, handler, onError });
  return {
    url: `http://${host}:${server.address.port}`,
    async close() {
      await within({ clock, ms: GRACE_MS }, server.close()).catch(() => {});
    },
  };
}
