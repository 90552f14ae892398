import { type AuditGate, newestLines, openServiceAudit } from "@gateway/shared/audit";
import { ChangeLock, isPostgresUrl, type StateWarner } from "@gateway/shared/state";
import { type Clock, type Elapsed, every, type Random } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { findExposedFiles } from "@gateway/shared/files";
import {
  keepListenerFresh,
  ListenerMetrics,
  loadListenerTls,
  type Monitor,
  type MtlsServer,
  startMtlsServer,
} from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { createMetrics } from "@gateway/shared/service/metrics";
import { type Metrics, type ServiceLogger, VERSION } from "@gateway/shared/service";
import { createSignerApp } from "./app.ts";
import { openConfigFile } from "./config/config_file.ts";
import { DecisionTurns } from "./sign/decision_turns.ts";
import { connectClusters } from "@gateway/shared/kubernetes";
import { ApiPreviewer } from "./kubernetes/preview.ts";
import { TokenLeases } from "./live/token_leases.ts";
import { ApiTokenIssuer } from "./kubernetes/token_issuer.ts";
import { KnownSubjects } from "./sign/known_subjects.ts";
import { KrlReaders } from "./live/krl/readers.ts";
import { findAnswers, readIssuedRecords } from "./live/krl/recorded.ts";
import { RevocationList } from "./live/krl/revocation_list.ts";
import { LiveState } from "./live/live_state.ts";
import { signerUsedFiles } from "./config/permissions.ts";
import { PolicyPreparation } from "./live/policy_preparation.ts";
import { PolicySource } from "./live/policy_source.ts";
import { SignLimit } from "./sign/sign_limit.ts";
import { clusterAddress, type Snapshot } from "./config/snapshot.ts";
import { logEnvelopeKey, SignerState, snapshotWarnings } from "./live/signer_state.ts";
import { openPostgresStore } from "./live/state/postgres.ts";
import { digestOf } from "./live/state/postgres.ts";
import { openSqliteStore } from "./live/state/store.ts";
import type { SharedState } from "./live/state/postgres.ts";
import type { StateStore } from "./live/state/store.ts";
import type { SignerConfig } from "./config/config.ts";
import { addInstanceMetrics, ALONE, SharedGroup } from "@gateway/shared/instances";
import { stampOf, watchConfig } from "./live/watch_config.ts";

/** The pause between sweeps of expired grants. */
const PURGE_SECONDS = 300;

/** The pause between attempts to store a freeze that the store could not take. */
const STORE_FREEZES_SECONDS = 10;

/** The pause between sweeps of the revocation list: each that drops something is a new version for every host. */
const SWEEP_SECONDS = 60;

/** The pause between attempts to take tokens of clusters back that are still good. */
const SWEEP_LEASES_SECONDS = 5;

/** The pause between attempts to put a version of the hosts in force that could not be recorded. */
const RETRY_POLICY_SECONDS = 5;

/** Half a second's reading; certificates that a freeze should find are at its end. */
const MAX_READ_BACK_BYTES = 128 * 1024 * 1024;

/** What a running signer is made of from outside. */
interface SignerEnvironment {
  readonly configPath: string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  readonly random: Random;
  /** The machine's name; asked for where signers share a database and the config has no name for this one. */
  readonly readHostname: () => string;
  /** The value of an environment variable; asked for what the config names. */
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
 * Starts a signer: config, policy and CA key, audit log, monitor, listener, in this order; whatever fails
 * ends it before it answers anything.
 *
 * @throws {AppError} `invalid_config` saying what to mend
 */
export async function startSigner(environment: SignerEnvironment): Promise<RunningSigner> {
  const { configPath, clock, random, logger } = environment;
  const configFile = openConfigFile(configPath, { clock, fetch, readEnv: environment.readEnv });
  // Before the first read: what is written from here on, the watch finds.
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
  const gate: AuditGate = await openServiceAudit({ config, clock, metrics, logger });
  opened.defer(() => gate.close());
  const lock = new ChangeLock();
  const storeErrors = metrics.counter(
    "statedb_errors_total",
    "Changes that the state database could not make",
  );
  const { store, group, shared } = await openState(config, environment);
  const instances = group ?? ALONE;
  // What instances compare is of one clock.
  const time = group?.clock ?? clock;
  addInstanceMetrics(metrics, group);
  opened.defer(() => group?.leave());
  const onStoreError = () => storeErrors.inc();
  const live = await LiveState.open({ store, clock: time, random, logger, lock, onStoreError });
  opened.defer(() => live.close());
  const krl = await RevocationList.open({
    ...{ store, clock: time, logger, onStoreError },
    forwarders: config.trusted_forwarders,
    async *readRecords(since) {
      const ahead = group?.clock.offset ?? 0;
      const records = readIssuedRecords(lastRecords(config.audit_log, logger), since + ahead);
      for await (const record of records) yield { ...record, recordedAt: record.recordedAt - ahead };
    },
    findAnswers: (requests, since) =>
      findAnswers(lastRecords(config.audit_log, logger), requests, since + (group?.clock.offset ?? 0)),
    async onLost(answers) {
      for (const { caller, serial, isToken, reason } of answers) {
        const command = `revoked serial=${serial} reason=${reason}`;
        await gate.bestEffort({ caller, serial, command, outcome: "revoked" });
        if (isToken) await leases.revoke({ kind: "serial", value: serial.toString() });
      }
    },
  }, live.view.freezes);
  opened.defer(() => krl.close());
  metrics.gauge("krl_version", "The version of the list of revoked certificates", () => krl.current.version);
  const policySource = new PolicySource({
    ...{ from: config.policy_source, configFile, versions: shared?.policy, digest: digestOf },
  });
  policySource.checkFile(config);
  const onReload = addReloadMetrics(metrics, clock);
  const load = (previous: Snapshot) => policySource.load(previous);
  const state = new SignerState({ initial, load, gate, logger, clock, lock, onReload });
  const clusters = connectClusters({ clock });
  opened.defer(() => clusters.close());
  const leases = await TokenLeases.open({
    store,
    api: clusters,
    clock: time,
    logger,
    onStoreError,
    addressOf: (name) => clusterAddress(state.current, name),
    isFrozen: (identity) => live.findFreeze(identity) !== undefined,
    ...(shared !== undefined && {
      shared: {
        instance: instanceName(config, environment),
        adopt: () => shared.adoptLeases(),
        freezes: () => Object.values(live.view.freezes).flatMap((each) => [...each.values()]),
      },
    }),
  });
  opened.defer(() => leases.close());
  await krl.seekGivenUp();
  if (group !== undefined) {
    const preparation = new PolicyPreparation({ policySource, state, logger, versions: shared.policy });
    opened.defer(() => preparation.ended());
    opened.defer(() => group.stop());
    await group.start(async (link, confirm) => {
      const { seen } = group;
      const knownPolicies = policySource.known;
      const content = await live.takeOver(async () => {
        const content = await shared.load(link, { seen, now: time.now(), knownPolicies });
        await confirm();
        return content;
      });
      await krl.takeOver(content);
      if (content.state === undefined) return content.epochs;
      // Before this signer says that it has seen a freeze, it is certain that its tokens of the subject go.
      await leases.revokeNew(content.state.freezes);
      // What can't be used is not decided by: the others need not wait for this one.
      if (policySource.learn(content.state.policy)) await reloadPolicy(state, policySource);
      preparation.learn(content.state.proposal);
      return content.epochs;
    });
    refuseTwoPolicies(policySource);
  }
  const background = new AbortController();
  const running = [
    every({ clock, seconds: PURGE_SECONDS, signal: background.signal }, () => live.purgeExpired()),
    every(
      { clock, seconds: STORE_FREEZES_SECONDS, signal: background.signal },
      () => live.storeFreezes(),
    ),
    every({ clock, seconds: SWEEP_SECONDS, signal: background.signal }, () => krl.sweep()),
    every({ clock, seconds: RETRY_POLICY_SECONDS, signal: background.signal }, async () => {
      if (policySource.isWaiting(state.current)) await reloadPolicy(state, policySource);
    }),
    every({ clock, seconds: SWEEP_LEASES_SECONDS, signal: background.signal }, () => leases.sweep()),
    ...(config.auto_reload_seconds > 0
      ? [watchConfig(configPath, state, { clock, background, config, logger, seen })]
      : []),
  ];
  opened.defer(async () => {
    background.abort();
    await Promise.all(running);
  });
  let monitor: Monitor | undefined;
  if (config.monitor_listen !== "") {
    monitor = await startServiceMonitor({
      service: "signer",
      listen: config.monitor_listen,
      isReady: () => ready && gate.isOpen,
      problem: () => instances.problem ?? policySource.problemOf(state.current),
      metrics,
      certificates: { server_cert: config.server_cert, client_ca: config.client_ca },
      clock,
    });
    opened.defer(() => monitor?.close());
  }
  const handler = createSignerApp({
    state,
    live,
    instances,
    krl,
    krlReaders: new KrlReaders(),
    configFile,
    policySource,
    gate,
    metrics,
    clock: time,
    random,
    logger,
    signLimit: new SignLimit({ clock }),
    turns: new DecisionTurns({ clock }),
    knownSubjects: new KnownSubjects(),
    tokens: new ApiTokenIssuer({ api: clusters, leases, clock: time, logger }),
    leases,
    previewer: new ApiPreviewer({ api: clusters, clock }),
  });
  const traffic = new ListenerMetrics(metrics);
  const server = await startMtlsServer({
    listen: config.listen,
    ...tls,
    isReserved: (caller) => state.current.config.reload_callers.includes(caller),
    handler,
    onAnswer: traffic.onAnswer,
    onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
  });
  traffic.watch(server);
  running.push(keepListenerFresh({ clock, signal: background.signal, logger, current: tls }, config, server));
  opened.defer(() => server.close());
  // Before it: the readers of the list would hold it up.
  opened.defer(() => krl.release());
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

/** Puts the newest hosts in force; why it can't, is logged and recorded, and nothing is decided then. */
async function reloadPolicy(state: SignerState, { from }: PolicySource): Promise<void> {
  if (from === "database") await state.reload("policy-source").catch(() => {});
}

/** @throws {AppError} `invalid_config` when hosts are in the file and in the database */
function refuseTwoPolicies({ from, newest }: PolicySource): void {
  if (from === "database" || newest === undefined) return;
  throw new AppError(
    "invalid_config",
    `Cannot use signer config: the database has hosts (version ${newest.version}) as well as the file: take them out ` +
      'of the file and set policy_source to "database", or name another database in state_db',
  );
}

/** The lines of the audit log, the last first. */
function lastRecords(path: string, logger: ServiceLogger): AsyncIterable<string> {
  const onCut = () =>
    logger.warn("the audit log is too large to read back: older certificates are known if they were stored");
  return newestLines(path, { maxBytes: MAX_READ_BACK_BYTES, onCut });
}

/** The start counts as a reload that went well. */
function addReloadMetrics(metrics: Metrics, clock: Clock): (succeeded: boolean) => void {
  const successful = metrics.gauge(
    "config_last_reload_successful",
    "Whether the last reload went well: 1 or 0",
  );
  const time = metrics.gauge(
    "config_last_reload_success_timestamp_seconds",
    "When the config in force was loaded, since the epoch",
  );
  const mark = (succeeded: boolean) => {
    successful.set(succeeded ? 1 : 0);
    if (succeeded) time.set(Math.floor(clock.now() / 1000));
  };
  mark(true);
  return mark;
}

function instanceName({ instance }: SignerConfig, { readHostname }: SignerEnvironment): string {
  return instance === "" ? readHostname() : instance;
}

/** The state, and the group of those that share it where it is shared. */
type OpenState =
  | { readonly store: StateStore; readonly group?: undefined; readonly shared?: undefined }
  | { readonly store: StateStore; readonly group: SharedGroup; readonly shared: SharedState };

async function openState(
  config: SignerConfig,
  environment: SignerEnvironment,
): Promise<OpenState> {
  const { clock, elapsed, random, logger } = environment;
  const { state_db } = config;
  const warn: StateWarner = (message, fields) => logger.warn(message, fields);
  if (!isPostgresUrl(state_db)) return { store: openSqliteStore({ path: state_db, warn }) };
  const name = instanceName(config, environment);
  const store = await openPostgresStore({ settings: config, clock, warn }, name);
  const newSession = () => random.bytes(16).toHex();
  try {
    const group = await SharedGroup.join({
      ...{ shared: store.shared, what: "signer", name, version: VERSION, newSession },
      ...{ clock, elapsed, logger },
    });
    return { store, group, shared: store.shared };
  } catch (error) {
    await store.close();
    throw error;
  }
}
