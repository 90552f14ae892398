/**
 * `approval-bridge`: posts pending approvals to a chat, and sends decisions from the chat to the control plane.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { readConfigText } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { findExposedFiles } from "@gateway/shared/files";
import { JsonClient, keepFresh, loadTlsMaterial, type TlsMaterial } from "@gateway/shared/http";
import { createRedactor } from "@gateway/shared/redact";
import { describeVersion, exitCodeOf, type ServiceLogger, waitForStop } from "@gateway/shared/service";
import { configureLogging, getServiceLogger } from "@gateway/shared/service/log";
import { writeAllSync } from "@gateway/shared/text";
import { Bridge } from "./bridge.ts";
import type { ChatOptions } from "./chat.ts";
import { parseIdentityMap } from "./guard.ts";
import { createControlPlaneClient, explainControlPlaneFailure } from "./control_plane_client.ts";
import {
  type BridgeSettings,
  bridgeUsedFiles,
  ENV_NAMES,
  OPTION_LINES,
  readSettings,
  SECRETS,
} from "./settings.ts";
import { BridgeStore } from "./store.ts";

const USAGE =
  `Usage: approval-bridge --cp-url host:port --identity-map FILE --slack-channel C0123456789 [option…]

Posts pending approvals to a chat channel, and sends decisions of its members to the control plane. The CN of the bridge's
certificate must be in approval.callers of the control plane's config.

${OPTION_LINES.join("\n")}
  --no-identity-guard         run without an identity map: everyone in the channel can approve, even their own requests
  --check                     test certificates, tokens, control plane and chat, then exit
  --version, --help           show the version (with --verbose the build), or this help

Tokens are read from variables only: SLACK_BOT_TOKEN and SLACK_APP_TOKEN, or MATTERMOST_TOKEN. SIGINT and SIGTERM stop the
bridge.
`;

async function main(args: readonly string[]): Promise<void> {
  const variables = Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)]));
  const printed = printedBy(args);
  if (printed !== undefined) return writeAllSync(Deno.stdout, printed);
  const settings = readSettings(args, { variables, workingFolder: Deno.cwd() });
  configureLogging(settings.logFormat);
  const logger = getServiceLogger("approval-bridge");
  const stop = new AbortController();
  const stopped = settings.action === "run" ? waitForStop() : undefined;
  stopped?.then((signal) => {
    logger.info("approval bridge stopping", { signal });
    stop.abort();
  });
  await runBridge(settings, logger, stop.signal);
}

/** The text of `--help` and `--version`. Needs no permission, because it does not read the working directory. */
function printedBy(args: readonly string[]): string | undefined {
  const isVerbose = (word: string) => /^--?verbose$/.test(word);
  if (!args.some((word) => /^--?(?:h|help|version)$/.test(word))) return undefined;
  const words = args.filter((word) => !isVerbose(word));
  const { action } = readSettings(words, { variables: {}, workingFolder: "/" });
  if (action === "help") return USAGE;
  return action === "version" ? `${describeVersion({ verbose: args.some(isVerbose) })}\n` : undefined;
}

const MOST_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 15_000;
const NONCE_BYTES = 18;

const USER_ID = { slack: /^[UW][A-Z0-9]{2,30}$/, mattermost: /^[a-z0-9]{26}$/ } as const;

/**
 * Checks the certificates, the identity map and the tokens. With `--check`, tests both connections; otherwise runs until
 * the signal is aborted.
 */
async function runBridge(settings: BridgeSettings, logger: ServiceLogger, signal: AbortSignal) {
  const clock = systemClock;
  for (const exposed of await findExposedFiles(bridgeUsedFiles(settings))) logger.warn(exposed);
  const { identityMap: path } = settings;
  const readIdentities = async () =>
    path === undefined
      ? undefined
      : parseIdentityMap(await readConfigText(path, "identity map"), path, USER_ID[settings.chat.kind]);
  await readIdentities();
  const chat = await createChat(settings, { clock, logger, fetch, signal });
  const tls = await loadTls(settings);
  using client = new JsonClient({
    what: "the control plane",
    baseUrl: settings.cpUrl,
    ...tls,
    clock,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: MOST_BYTES,
  });
  const controlPlane = createControlPlaneClient(client);
  if (settings.action === "check") {
    await controlPlane.list().catch((error) => {
      throw explainControlPlaneFailure(error, settings);
    });
    logger.info("control plane accepted the approver's certificate", { control_plane: settings.cpUrl });
    logger.info("chat accepted the tokens", { chat: chat.name, as: await chat.connect() });
    return;
  }
  const store = BridgeStore.open({ path: settings.state, warn: logger.warn });
  try {
    const bridge = new Bridge({
      controlPlane,
      chat,
      store,
      clock,
      logger,
      redact: createRedactor(undefined),
      pageOf: (approval) => settings.pageUrl.replaceAll("{id}", encodeURIComponent(approval)),
      readIdentities,
      makeNonce: () => systemRandom.bytes(NONCE_BYTES).toHex(),
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

async function createChat({ chat }: BridgeSettings, options: Omit<ChatOptions, "channel">) {
  const [first, second] = SECRETS[chat.kind].map((name) => {
    const value = Deno.env.get(name) ?? "";
    if (/^[\x21-\x7e]+$/.test(value)) return value;
    throw new AppError("invalid_config", `Cannot use variable ${name}: expected a token of the chat`);
  });
  const common = { ...options, channel: chat.channel };
  // Slack's libraries are large.
  if (chat.kind === "slack") {
    const { SlackChat } = await import("./slack.ts");
    return new SlackChat({ ...common, apiUrl: chat.apiUrl, botToken: first ?? "", appToken: second ?? "" });
  }
  const { MattermostChat } = await import("./mattermost.ts");
  return new MattermostChat({ ...common, url: chat.url, token: first ?? "" });
}

function loadTls({ cert, key, ca }: BridgeSettings): Promise<TlsMaterial> {
  return loadTlsMaterial({
    cert: { key: "--cert", path: cert },
    key: { key: "--key", path: key },
    ca: { key: "--ca", path: ca },
  });
}

if (import.meta.main) Deno.exit(await exitCodeOf(() => main(Deno.args)));
