import { type Environment, openState, startDaemon } from "@gateway/shared/daemon";
import { loadConfig, signerUrls } from "@gateway/shared/config";
import { readNamedText } from "@gateway/shared/files";
import { keepFresh, loadSignerTls, loadTlsKeyPair, openUpstreams, UpstreamWatch } from "@gateway/shared/http";
import { ALONE, type Epochs } from "@gateway/shared/instances";
import { createRedactor } from "@gateway/shared/redact";
import { describeStateDb } from "@gateway/shared/state";
import { createControlPlaneApp } from "./app.ts";
import { ApprovalRegistry } from "./approvals/registry.ts";
import {
  configWarnings,
  type ControlPlaneConfig,
  controlPlaneConfig,
  type UiConfig,
} from "./config/config.ts";
import { controlPlaneUsedFiles } from "./config/permissions.ts";
import { Guardrails } from "./guardrails/guardrails.ts";
import { createNotifier, notificationMs } from "./notify/notifier.ts";
import { LIST_PATH, pageHeaders, renderUnauthenticatedPage } from "./pages/page.tsx";
import { SignerClient } from "./routes/signer_client.ts";
import { openPostgresControlStore } from "./state/postgres.ts";
import { openSqliteControlStore } from "./state/sqlite.ts";

/**
 * The number of connections to the signer: the number of concurrent requests that one broker may have.
 * Connections stay open.
 */
const SIGNER_CONNECTIONS = 64;

/**
 * Starts a control plane: config, credentials, audit log, state, monitor, listener, in this order. If a step
 * fails, the process ends before it answers a request. The signer need not be reachable yet.
 *
 * @throws {AppError} `invalid_config` with the problem and how to fix it
 */
export async function startControlPlane(environment: Environment) {
  const { configPath: path, clock, random, logger, fetch } = environment;
  const config = await loadConfig({ path, what: "control plane config", schema: controlPlaneConfig });
  for (const warning of configWarnings(config)) logger.warn(warning);
  const usedFiles = controlPlaneUsedFiles(config, path);
  return await startDaemon({ name: "control-plane", config, usedFiles, environment }, async (daemon) => {
    const { opened, metrics, gate, stopping } = daemon;
    const signerTls = await loadSignerTls(config.signer);
    const signers = openUpstreams({
      ...{ clock, what: "the signer", urls: signerUrls(config.signer), ...signerTls, random },
    });
    opened.defer(() => signers.close());
    // A list of 10,000 hosts is about 2 MB.
    const client = signers.client({ maxConnections: SIGNER_CONNECTIONS, maxResponseBytes: 8 << 20 });
    const { store, group, shared } = await openState("control plane", config, environment, {
      own: () => openSqliteControlStore({ path: config.state_db, warn: logger.warn }),
      joint: () => openPostgresControlStore({ settings: config, clock, warn: logger.warn }),
    });
    const instances = group ?? ALONE;
    // Instances compare times by one shared clock.
    const time = group?.clock ?? clock;
    group?.addMetrics(metrics);
    opened.defer(() => store.close());
    opened.defer(() => group?.leave());
    const storeErrors = metrics.counter("statedb_errors_total", "Failed writes to the state database");
    const onStoreError = () => storeErrors.inc();
    const registry = await ApprovalRegistry.open({
      ...{ store, clock: time, random, logger, onStoreError },
      timeoutSeconds: config.approval.timeout_seconds,
      maxPendingPerCaller: config.approval.max_pending_per_caller,
      notifyMs: notificationMs(config.approval),
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
    const { behavior } = config;
    const guardrails = await Guardrails.open({ config: behavior, store, clock: time, logger, onStoreError });
    opened.defer(() => guardrails.close());
    const notifier = createNotifier({
      ...{ config: config.approval, redact: createRedactor(config.redact), store, fetch },
      find(id) {
        const approval = registry.findFirst(id);
        return approval && registry.describe(approval);
      },
      ...{ clock: time, logger, metrics, secret: webhookSecret(config, environment.readEnv) },
    });
    opened.defer(() => notifier.close());
    const probe = signers.client({ maxConnections: 1 });
    const upstream = new UpstreamWatch({ what: "the signer", client: probe, clock });
    const { client_cert, ca } = config.signer;
    await daemon.startMonitor({
      certificates: {
        ...{ "signer.client_cert": client_cert, "signer.ca": ca },
        ...(config.ui && config.ui.server_cert !== "" && { "ui.server_cert": config.ui.server_cert }),
      },
      upstream,
      problem: () => instances.problem ?? upstream.problem(),
    });
    const asking = metrics.histogram(
      "controlplane_signer_duration_seconds",
      "Signer response time",
      "exchange",
    );
    const signer = new SignerClient({
      request: (request) => asking.measure(() => client.request(request), ({ status }) => resultOf(status)),
    });
    const { handler, pagesAt } = createControlPlaneApp({
      ...{ config, registry, instances, guardrails, notifier, signer, gate, metrics, clock: time, logger },
      stopping,
    });
    const { ui, ui_listen } = config;
    if (ui !== undefined) {
      await daemon.listenWithoutCertificates({
        ...{ key: "ui_listen", listen: ui_listen, loadTls: () => loadUiTls(config, ui) },
        handler: await openSignIn(ui, pagesAt(ui.url), environment, opened),
      });
    }
    const signIn = ui && `${ui.url}${LIST_PATH}`;
    const { address } = await daemon.listen({
      isReserved: (caller) => config.approval.callers.includes(caller),
      handler,
      unauthenticatedPage: ({ status, title, detail }) =>
        new Response(renderUnauthenticatedPage({ title, detail, signIn, now: clock.now() }), {
          status,
          headers: pageHeaders(),
        }),
    });
    const what = "the certificates for the signer";
    const kept = keepFresh({ clock, signal: stopping, logger, what, current: signerTls }, {
      load: () => loadSignerTls(config.signer),
      take: (tls) => signers.renew(tls),
    });
    opened.defer(() => kept);
    return {
      address,
      facts: {
        signer: signerUrls(config.signer).join(" "),
        approvers: config.approval.callers.length,
        behavior: behavior.mode,
        ...(ui !== undefined && { ui_listen }),
        ...(config.state_db !== "" && { state_db: describeStateDb(config.state_db), approvals: restored }),
      },
    };
  });
}

function resultOf(status: number): string {
  if (status >= 500) return "failed";
  return status >= 400 ? "refused" : "ok";
}

function webhookSecret(
  { approval }: ControlPlaneConfig,
  readEnv: Environment["readEnv"],
): string | undefined {
  const { notifier, webhook_secret_env } = approval;
  return notifier === "log" || webhook_secret_env === "" ? undefined : readEnv(webhook_secret_env);
}

function loadUiTls(config: ControlPlaneConfig, { server_cert, server_key }: UiConfig) {
  const key = server_cert === "" ? "" : "ui.";
  return loadTlsKeyPair({
    cert: { key: `${key}server_cert`, path: server_cert || config.server_cert },
    key: { key: `${key}server_key`, path: server_key || config.server_key },
  });
}

/** Opens the sign-in with the company's account. The provider need not be available yet. */
async function openSignIn(
  config: UiConfig,
  app: ReturnType<ReturnType<typeof createControlPlaneApp>["pagesAt"]>,
  { clock, random, fetch, logger }: Environment,
  opened: AsyncDisposableStack,
) {
  const { issuer, client_id: clientId, scopes } = config;
  const secret = await readNamedText("ui.client_secret_file", config.client_secret_file);
  const ca = config.issuer_ca === "" ? "" : await readNamedText("ui.issuer_ca", config.issuer_ca);
  // Only a control plane with a sign-in loads the libraries.
  const [{ LoginClient }, { CALLBACK_PATH, createSignIn }] = await Promise.all([
    import("@gateway/shared/oidc/login"),
    import("./sign_in/sign_in.ts"),
  ]);
  const redirectUri = `${config.url}${CALLBACK_PATH}`;
  const settings = { issuer, clientId, scopes, clientSecret: secret.trim(), redirectUri, ca };
  const login = opened.use(new LoginClient(settings, { fetch, clock }));
  void login.discover().catch((error) =>
    logger.warn("OpenID provider not available, trying again", { error })
  );
  return createSignIn({ ...app, config, login, random });
}
