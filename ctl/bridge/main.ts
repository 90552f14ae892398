/**
 * `approval-bridge`: shows in a chat what waits for approval, and takes decisions from there to the control plane.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { configureLogging, getServiceLogger } from "@gateway/shared/service/log";
import { describeVersion, exitCodeOf, waitForStop } from "@gateway/shared/service";
import { ENV_NAMES, readSettings } from "./settings.ts";
import { runBridge } from "./start_bridge.ts";

const USAGE =
  `Usage: approval-bridge --cp-url host:port --identity-map FILE --slack-channel C0123456789 [option…]

Shows in a channel of a chat what waits for approval, and takes decisions from there to the control plane, under an
approver's certificate of its own, whose CN is in approval.callers there. Each option may be a variable instead.

  --cp-url ADDRESS            BRIDGE_CP_URL: the control plane
  --cert FILE                 BRIDGE_CERT: the bridge's certificate (pki/approver.crt)
  --key FILE                  BRIDGE_KEY: its private key (pki/approver.key)
  --ca FILE                   BRIDGE_CA: the CA of the control plane's certificate (pki/mtls_ca.crt)
  --identity-map FILE         BRIDGE_IDENTITY_MAP: {"<user id of the chat>": "<end user>"}; read for each decision
  --no-identity-guard         without such a map: everybody in the channel may approve, also what he asked for
  --state FILE                BRIDGE_STATE: what is posted and clicked (state/approval-bridge.db)
  --page-url URL              BRIDGE_PAGE_URL: an approval's page, with {id} (the control plane's)
  --poll DURATION             how often the control plane is asked (5s)
  --chat NAME                 BRIDGE_CHAT: slack or mattermost (slack)
  --slack-channel ID          SLACK_CHANNEL
  --slack-api-url URL         SLACK_API_URL (https://slack.com/api/)
  --mattermost-url URL        MATTERMOST_URL
  --mattermost-channel ID     MATTERMOST_CHANNEL
  --check                     tries certificates, tokens and both sides, and ends
  --version, --help           print that; --version --verbose all of the build

Tokens come from the environment alone: SLACK_BOT_TOKEN and SLACK_APP_TOKEN, or MATTERMOST_TOKEN.
SIGINT and SIGTERM stop it.
`;

async function main(args: readonly string[]): Promise<number> {
  const variables = Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)]));
  const printed = printedBy(args);
  if (printed !== undefined) return print(printed);
  const settings = readSettings(args, { variables, workingFolder: Deno.cwd() });
  configureLogging();
  const logger = getServiceLogger("approval-bridge");
  const stop = new AbortController();
  const stopped = settings.action === "run" ? waitForStop() : undefined;
  stopped?.then((signal) => {
    logger.info("approval bridge stopping", { signal });
    stop.abort();
  });
  await runBridge(settings, {
    clock: systemClock,
    random: systemRandom,
    logger,
    fetch,
    readEnv: (name) => Deno.env.get(name),
    signal: stop.signal,
  });
  return 0;
}

/** Needs no permission: the working folder is not asked for. */
function printedBy(args: readonly string[]): string | undefined {
  const isVerbose = (word: string) => /^--?verbose$/.test(word);
  const { action } = args.some((word) => /^--?(?:h|help|version)$/.test(word))
    ? readSettings(args.filter((word) => !isVerbose(word)), { variables: {}, workingFolder: "/" })
    : { action: "run" };
  if (action === "help") return USAGE;
  return action === "version" ? `${describeVersion({ verbose: args.some(isVerbose) })}\n` : undefined;
}

function print(text: string): number {
  writeAllSync(Deno.stdout, text);
  return 0;
}

if (import.meta.main) Deno.exit(await exitCodeOf(() => main(Deno.args)));
