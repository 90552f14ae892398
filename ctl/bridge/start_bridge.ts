import type { Clock, Random } from "@gateway/shared/clock";
import { readConfigText } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { findExposedFiles } from "@gateway/shared/files";
import { JsonClient, keepFresh, loadTlsMaterial, type TlsMaterial } from "@gateway/shared/http";
import type { ServiceLogger } from "@gateway/shared/service";
import { createRedactor } from "@gateway/shared/redact";
import { Bridge } from "./bridge.ts";
import type { Chat } from "./chat.ts";
import { type IdentityMap, parseIdentityMap } from "./guard.ts";
import { bridgeUsedFiles } from "./permissions.ts";
import { createPlane, explainPlaneFailure } from "./plane.ts";
import { type BridgeSettings, SECRETS } from "./settings.ts";
import { BridgeStore } from "./store.ts";

/** What {@linkcode runBridge} takes from its process. */
interface BridgeProcess {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: ServiceLogger;
  readonly fetch: typeof fetch;
  readonly readEnv: (name: string) => string | undefined;
  readonly signal: AbortSignal;
}

/** The policy of ten thousand hosts has none, but what waits may be much. */
const MOST_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 15_000;
const NONCE_BYTES = 18;

/** What ids of users look like. */
const USER_ID = { slack: /^[UW][A-Z0-9]{2,30}$/, mattermost: /^[a-z0-9]{26}$/ } as const;

/**
 * Checks everything that can be checked: certificates, identity map, tokens, the control plane and the chat, and that
 * the control plane takes this for an approver; then runs until the signal is aborted, unless that was all.
 *
 * @throws {AppError} saying what to mend
 */
export async function runBridge(settings: BridgeSettings, process: BridgeProcess): Promise<void> {
  const { clock, logger, signal } = process;
  for (const exposed of await findExposedFiles(bridgeUsedFiles(settings))) logger.warn(exposed);
  const readIdentities = identityReader(settings);
  await readIdentities();
  const chat = await createChat(settings, process);
  const tls = await loadTls(settings);
  using client = new JsonClient({
    what: "the control plane",
    baseUrl: settings.cpUrl,
    ...tls,
    clock,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: MOST_BYTES,
  });
  const plane = createPlane(client);
  if (settings.action === "check") {
    await plane.list().catch((error) => {
      throw explainPlaneFailure(error, settings);
    });
    logger.info("the control plane takes this for an approver", { control_plane: settings.cpUrl });
    logger.info("the chat takes the tokens", { chat: chat.name, as: await chat.connect(signal) });
    return;
  }
  const store = BridgeStore.open({ path: settings.state, warn: logger.warn });
  try {
    const bridge = new Bridge({
      plane,
      chat,
      store,
      clock,
      logger,
      redact: createRedactor(undefined),
      pageOf: (approval) => settings.pageUrl.replaceAll("{id}", encodeURIComponent(approval)),
      readIdentities,
      makeNonce: () => process.random.bytes(NONCE_BYTES).toHex(),
    });
    logger.info("approval bridge ready", {
      control_plane: settings.cpUrl,
      chat: chat.name,
      poll_seconds: settings.pollSeconds,
      identity_guard: settings.identityMap === undefined ? "off" : "on",
    });
    await Promise.all([
      bridge.run({ signal, pollSeconds: settings.pollSeconds }),
      keepFresh({ clock, signal, logger, what: "the approver's certificate", current: tls }, {
        load: () => loadTls(settings),
        take: (fresh) => client.renew(fresh),
      }),
    ]);
  } finally {
    await store.close();
  }
}

async function createChat({ chat }: BridgeSettings, process: BridgeProcess): Promise<Chat> {
  const { clock, logger, fetch, signal } = process;
  const [first, second] = SECRETS[chat.kind].map((name) => {
    const value = process.readEnv(name) ?? "";
    if (/^[\x21-\x7e]+$/.test(value)) return value;
    throw new AppError("invalid_config", `Cannot use the variable ${name}: it has to hold the chat's token`);
  });
  const common = { channel: chat.channel, clock, logger, fetch, signal };
  // Only the one that is used is loaded: Slack's libraries are large.
  if (chat.kind === "slack") {
    const { SlackChat } = await import("./slack.ts");
    return new SlackChat({ ...common, apiUrl: chat.apiUrl, botToken: first ?? "", appToken: second ?? "" });
  }
  const { MattermostChat } = await import("./mattermost.ts");
  return new MattermostChat({ ...common, url: chat.url, token: first ?? "" });
}

function identityReader({ identityMap, chat }: BridgeSettings): () => Promise<IdentityMap> {
  return async () => {
    if (identityMap === undefined) return undefined;
    return parseIdentityMap(
      await readConfigText(identityMap, "identity map"),
      identityMap,
      USER_ID[chat.kind],
    );
  };
}

function loadTls({ cert, key, ca }: BridgeSettings): Promise<TlsMaterial> {
  return loadTlsMaterial({
    cert: { key: "--cert", path: cert },
    key: { key: "--key", path: key },
    ca: { key: "--ca", path: ca },
  });
}
