import { newestLines } from "@gateway/shared/audit";
import { every } from "@gateway/shared/clock";
import { type Environment, openState, startDaemon } from "@gateway/shared/daemon";
import { configError } from "@gateway/shared/errors";
import type { SharedGroup } from "@gateway/shared/instances";
import { connectClusters } from "@gateway/shared/kubernetes";
import type { ServiceLogger } from "@gateway/shared/service";
import { createSignerApp } from "./app.ts";
import { fileStamp, openConfigFile } from "./config/snapshot.ts";
import { signerUsedFiles } from "./config/permissions.ts";
import { logEnvelopeKey, snapshotWarnings } from "./config/warnings.ts";
import { findAnswers, readIssuedRecords } from "./live/krl/recorded.ts";
import type { LogReader } from "./live/krl/revocation_list.ts";
import type { PolicySource, SignerState } from "./live/policy.ts";
import { openPostgresStore, type SharedState } from "./live/state/postgres.ts";
import { openSqliteStore } from "./live/state/store.ts";
import { type Authority, openAuthority } from "./sign/authority.ts";

/**
 * The part of the log that is read back at the start, which takes half a second. The certificates that a
 * freeze should find are at the end of the log.
 */
const MAX_READ_BACK_BYTES = 128 * 1024 * 1024;

/**
 * Starts a signer: config, policy and CA key, audit log, state, monitor, listener, in this order. If a step
 * fails, the process ends before it answers a request.
 *
 * @throws {AppError} `invalid_config` with the problem and how to fix it
 */
export async function startSigner(environment: Environment) {
  const { configPath, clock, random, logger, readEnv, fetch } = environment;
  const configFile = openConfigFile(configPath, { clock, fetch, readEnv });
  // Before the first read, so that the watch finds every later change.
  const seen = await fileStamp(configPath);
  const initial = await configFile.compile(await configFile.read());
  const { config } = initial;
  for (const warning of snapshotWarnings(initial)) logger.warn(warning);
  logEnvelopeKey(initial, logger);
  const usedFiles = signerUsedFiles(config, configPath);
  return await startDaemon({ name: "signer", config, usedFiles, environment }, async (daemon) => {
    const { opened, metrics, gate } = daemon;
    const { store, group, shared } = await openState("signer", config, environment, {
      own: () => openSqliteStore({ path: config.state_db, warn: logger.warn }),
      joint: (name) => openPostgresStore({ settings: config, clock, warn: logger.warn }, name),
    });
    group?.addMetrics(metrics);
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
    await daemon.startMonitor({
      problem: () => authority.instances.problem ?? policySource.problemOf(state.current),
      certificates: {},
    });
    const { address } = await daemon.listen({
      isReserved: (caller) => state.current.config.reload_callers.includes(caller),
      handler: createSignerApp(authority),
    });
    // Release the readers that wait for a newer list, because they would delay the close of the server.
    opened.defer(() => authority.krl.release());
    return {
      state,
      address,
      facts: { hosts: state.current.policy.hosts.size },
      // A failed reload is logged and audited where it happens. The previous config stays in force.
      reload: () => void state.reload("SIGHUP").catch(() => undefined),
    };
  });
}

/** The periodic tasks, each with its interval in seconds. */
function periodicTasks(
  { live, krl, leases, policySource, state, logger }: Authority,
  configPath: string,
  seen: string,
): readonly (readonly [number, () => Promise<void>])[] {
  let last = seen;
  // The stamp is stored before the reload, so that a broken file is loaded once, and again only after a
  // change.
  const reloadChanged = async () => {
    const stamp = await fileStamp(configPath);
    if (stamp === last) return;
    last = stamp;
    // A failed reload is logged and audited where it happens. If the file is being replaced, the next check
    // loads it.
    await state.reload("auto-reload").catch((error) => logger.warn("config file not reloaded", { error }));
  };
  const { auto_reload_seconds } = state.current.config;
  return [
    [300, () => live.purgeExpired()],
    [10, () => live.storeFreezes()],
    // Sweep rarely, because each sweep that removes a name publishes a new version to every host.
    [60, () => krl.sweep()],
    [
      5,
      async () => policySource.isWaiting(state.current) ? await reloadPolicy(state, policySource) : undefined,
    ],
    [5, () => leases.sweep()],
    ...(auto_reload_seconds > 0 ? [[auto_reload_seconds, reloadChanged] as const] : []),
  ];
}

/** Starts to follow the changes of the other signers that share the database. */
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
    // Revoke the subject's tokens before this signer confirms that it has seen the freeze.
    await leases.revokeNew(content.state.freezes);
    // This signer makes no decisions by a policy that it cannot use, so the others need not wait for it.
    if (policySource.learn(content.state.policy)) await reloadPolicy(state, policySource);
    policySource.learnProposal(content.state.proposal, state);
    return content.epochs;
  });
  const { from, newest } = policySource;
  if (from === "database" || newest === undefined) return;
  throw configError(
    `Cannot use signer config: both the database (version ${newest.version}) and the file have hosts: remove them ` +
      'from the file and set policy_source to "database", or name another database in state_db',
  );
}

/**
 * Puts the newest hosts in force. A failure is logged and recorded where it happens, and this signer then
 * makes no decisions.
 */
async function reloadPolicy(state: SignerState, { from }: PolicySource): Promise<void> {
  if (from === "database") await state.reload("policy-source").catch(() => {});
}

/**
 * Reads the audit log back, newest line first. The log has times of this machine, which is `ahead` of the
 * shared clock of the signers.
 */
function readAuditLog(path: string, logger: ServiceLogger, ahead: () => number): LogReader {
  const onCut = () =>
    logger.warn("audit log too large, older certificates are known only if they were stored");
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
