import { newestLines, openServiceAudit } from "@gateway/shared/audit";
import { type Clock, type Elapsed, every, type Random } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { findExposedFiles } from "@gateway/shared/files";
import {
  keepListenerFresh,
  ListenerMetrics,
  loadListenerTls,
  type MtlsServer,
  startMtlsServer,
} from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { addInstanceMetrics, SharedGroup } from "@gateway/shared/instances";
import { connectClusters } from "@gateway/shared/kubernetes";
import { type ServiceLogger, VERSION } from "@gateway/shared/service";
import { createMetrics } from "@gateway/shared/service/metrics";
import { isPostgresUrl, type StateWarner } from "@gateway/shared/state";
import { createSignerApp } from "./app.ts";
import type { SignerConfig } from "./config/config.ts";
import { openConfigFile, stampOf } from "./config/config_file.ts";
import { signerUsedFiles } from "./config/permissions.ts";
import { logEnvelopeKey, snapshotWarnings } from "./config/warnings.ts";
import { findAnswers, readIssuedRecords } from "./live/krl/recorded.ts";
import type { LogReader } from "./live/krl/revocation_list.ts";
import type { PolicySource, SignerState } from "./live/policy.ts";
import { openPostgresStore, type SharedState } from "./live/state/postgres.ts";
import { openSqliteStore, type StateStore } from "./live/state/store.ts";
import { type Authority, openAuthority } from "./sign/authority.ts";

/** Reading takes half a second; certificates that a freeze should find are at the end of the log. */
const MAX_READ_BACK_BYTES = 128 * 1024 * 1024;

interface SignerEnvironment {
  readonly configPath: string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  readonly random: Random;
  /** The machine's name, which is the default name of an instance that shares a database. */
  readonly readHostname: () => string;
  readonly readEnv: (name: string) => string | undefined;
  readonly logger: ServiceLogger;
}

interface RunningSigner {
  readonly state: SignerState;
  readonly address: MtlsServer["address"];
  /** Stops answering, lets requests under way end, and closes the audit log. */
  close(): Promise<void>;
}

/**
 * Starts a signer: config, policy and CA key, audit log, state, monitor, listener, in this order. A failure ends it before
 * it answers anything.
 *
 * @throws {AppError} `invalid_config` with the problem and how to fix it
 */
export async function startSigner(environment: SignerEnvironment): Promise<RunningSigner> {
  const { configPath, clock, random, logger } = environment;
  const configFile = openConfigFile(configPath, { clock, fetch, readEnv: environment.readEnv });
  // Before the first read, so that the watch finds every later change.
  const seen = await stampOf(configPath);
  const initial = await configFile.compile(await configFile.read());
  const { config } = initial;
  for (const warning of snapshotWarnings(initial)) logger.warn(warning);
  logEnvelopeKey(initial, logger);
  for (const exposed of await findExposedFiles(signerUsedFiles(config, configPath))) logger.warn(exposed);
  const tls = await loadListenerTls(config);
  const metrics = createMetrics();
  let ready = false;
  await using opened = new AsyncDisposableStack();
  const gate = await openServiceAudit({ config, clock, metrics, logger });
  opened.defer(() => gate.close());
  const { store, group, shared } = await openState(config, environment);
  addInstanceMetrics(metrics, group);
  opened.defer(() => group?.leave());
  const clusters = connectClusters({ clock });
  opened.defer(() => clusters.close());
  const log = readAuditLog(config.audit_log, logger, () => group?.clock.offset ?? 0);
  const parts = { initial, configFile, store, group, gate, log, clusters, metrics, clock, random, logger };
  const authority = await openAuthority(parts, opened);
  await authority.krl.seekGivenUp();
  if (group !== undefined) await followOthers(authority, group, shared, opened);
  const background = new AbortController();
  const { state, policySource } = authority;
  const running = periodicTasks(authority, configPath, seen).map(([seconds, task]) =>
    every({ clock, seconds, signal: background.signal }, task)
  );
  opened.defer(async () => {
    background.abort();
    await Promise.all(running);
  });
  if (config.monitor_listen !== "") {
    const monitor = await startServiceMonitor({
      service: "signer",
      listen: config.monitor_listen,
      isReady: () => ready && gate.isOpen,
      problem: () => authority.instances.problem ?? policySource.problemOf(state.current),
      metrics,
      certificates: { server_cert: config.server_cert, client_ca: config.client_ca },
      clock,
    });
    opened.defer(() => monitor.close());
  }
  const traffic = new ListenerMetrics(metrics);
  const server = await startMtlsServer({
    listen: config.listen,
    ...tls,
    isReserved: (caller) => state.current.config.reload_callers.includes(caller),
    handler: createSignerApp(authority),
    onAnswer: traffic.onAnswer,
    onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
  });
  traffic.watch(server);
  running.push(keepListenerFresh({ clock, signal: background.signal, logger, current: tls }, config, server));
  opened.defer(() => server.close());
  // Before the server is closed: readers that wait for a newer list would hold it up.
  opened.defer(() => authority.krl.release());
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

/** Tasks, each with the pause before it in seconds. */
function periodicTasks(
  { live, krl, leases, policySource, state, logger }: Authority,
  configPath: string,
  seen: string,
): readonly (readonly [number, () => Promise<void>])[] {
  let last = seen;
  // The stamp is remembered before the reload, so that a broken file is tried once, and again only after a change.
  const reloadChanged = async () => {
    const stamp = await stampOf(configPath);
    if (stamp === last) return;
    last = stamp;
    // A failed reload is logged and audited where it happens; a file that is being replaced comes back.
    await state.reload("auto-reload").catch((error) =>
      logger.warn("the config file could not be reloaded", { error })
    );
  };
  const { auto_reload_seconds } = state.current.config;
  return [
    [300, () => live.purgeExpired()],
    [10, () => live.storeFreezes()],
    // Each sweep that drops something makes a new version for every host.
    [60, () => krl.sweep()],
    [
      5,
      async () => policySource.isWaiting(state.current) ? await reloadPolicy(state, policySource) : undefined,
    ],
    [5, () => leases.sweep()],
    ...(auto_reload_seconds > 0 ? [[auto_reload_seconds, reloadChanged] as const] : []),
  ];
}

/** Takes over what the other signers of the database change, from here on. */
async function followOthers(
  { live, krl, leases, policySource, state, clock }: Authority,
  group: SharedGroup,
  shared: SharedState,
  opened: AsyncDisposableStack,
): Promise<void> {
  opened.defer(() => policySource.prepared());
  opened.defer(() => group.stop());
  await group.start(async (link, confirm) => {
    const { seen } = group;
    const knownPolicies = policySource.known;
    const content = await live.takeOver(async () => {
      const content = await shared.load(link, { seen, now: clock.now(), knownPolicies });
      await confirm();
      return content;
    });
    await krl.takeOver(content);
    if (content.state === undefined) return content.epochs;
    // Before this signer says that it has seen a freeze, it is certain that its tokens of the subject go.
    await leases.revokeNew(content.state.freezes);
    // A policy that cannot be used is not decided by: the others need not wait for this signer.
    if (policySource.learn(content.state.policy)) await reloadPolicy(state, policySource);
    policySource.learnProposal(content.state.proposal, state);
    return content.epochs;
  });
  const { from, newest } = policySource;
  if (from === "database" || newest === undefined) return;
  throw new AppError(
    "invalid_config",
    `Cannot use signer config: the database has hosts (version ${newest.version}) as well as the file: take them out ` +
      'of the file and set policy_source to "database", or name another database in state_db',
  );
}

/** Puts the newest hosts in force. A failure is logged and recorded where it happens, and nothing is decided then. */
async function reloadPolicy(state: SignerState, { from }: PolicySource): Promise<void> {
  if (from === "database") await state.reload("policy-source").catch(() => {});
}

/** Reads the audit log back, the last line first. Its times are of this machine, `ahead` of the signers' one clock. */
function readAuditLog(path: string, logger: ServiceLogger, ahead: () => number): LogReader {
  const onCut = () =>
    logger.warn("the audit log is too large to read back: older certificates are known if they were stored");
  const lines = () => newestLines(path, { maxBytes: MAX_READ_BACK_BYTES, onCut });
  return {
    async *readRecords(since) {
      const offset = ahead();
      for await (const record of readIssuedRecords(lines(), since + offset)) {
        yield { ...record, recordedAt: record.recordedAt - offset };
      }
    },
    findAnswers: (requests, since) => findAnswers(lines(), requests, since + ahead()),
  };
}

async function openState(
  config: SignerConfig,
  { clock, elapsed, random, logger, readHostname }: SignerEnvironment,
): Promise<
  | { readonly store: StateStore; readonly group?: undefined; readonly shared?: undefined }
  | { readonly store: StateStore; readonly group: SharedGroup; readonly shared: SharedState }
> {
  const warn: StateWarner = (message, fields) => logger.warn(message, fields);
  if (!isPostgresUrl(config.state_db)) return { store: openSqliteStore({ path: config.state_db, warn }) };
  const name = config.instance === "" ? readHostname() : config.instance;
  const store = await openPostgresStore({ settings: config, clock, warn }, name);
  const { shared } = store;
  try {
    const newSession = () => random.bytes(16).toHex();
    const identity = { shared, what: "signer", name, version: VERSION, newSession };
    return { store, shared, group: await SharedGroup.join({ ...identity, clock, elapsed, logger }) };
  } catch (error) {
    await store.close();
    throw error;
  }
}
