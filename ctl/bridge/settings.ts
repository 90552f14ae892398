import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import type { UsedFile } from "@gateway/shared/files";
import { mergeSets, type PermissionSet, urlPermissions } from "@gateway/shared/permissions";
import { parseLogFormat } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import { parseDuration } from "../kit/values.ts";

type Setting = Partial<Readonly<Record<"variable" | "fallback", string>>> & { readonly help: string };

const OPTIONS: Readonly<Record<string, Setting>> = {
  "cp-url": { variable: "BRIDGE_CP_URL", help: "control plane, host:port" },
  cert: { variable: "BRIDGE_CERT", fallback: "pki/approver.crt", help: "client certificate" },
  key: { variable: "BRIDGE_KEY", fallback: "pki/approver.key", help: "private key of the certificate" },
  ca: { variable: "BRIDGE_CA", fallback: "pki/mtls_ca.crt", help: "CA of the control plane's certificate" },
  "identity-map": { variable: "BRIDGE_IDENTITY_MAP", help: 'file {"<chat user ID>": "<end user>"}' },
  state: {
    variable: "BRIDGE_STATE",
    fallback: "state/approval-bridge.db",
    help: "posted messages and clicks",
  },
  "page-url": { variable: "BRIDGE_PAGE_URL", help: "approval page with {id} (default: the control plane's)" },
  poll: { fallback: "5s", help: "poll interval" },
  chat: { variable: "BRIDGE_CHAT", fallback: "slack", help: "slack or mattermost" },
  "slack-channel": { variable: "SLACK_CHANNEL", help: "channel ID" },
  "slack-api-url": { variable: "SLACK_API_URL", fallback: "https://slack.com/api/", help: "URL of the API" },
  "mattermost-url": { variable: "MATTERMOST_URL", help: "URL of the server" },
  "mattermost-channel": { variable: "MATTERMOST_CHANNEL", help: "channel ID" },
  "log-format": { fallback: "auto", help: "auto, text or json; auto is text on a terminal, else JSON" },
};

/** The options as `--help` shows them. */
export const OPTION_LINES: readonly string[] = Object.entries(OPTIONS).map(
  ([name, { variable, fallback, help }]) =>
    `  --${name} VALUE`.padEnd(30) + help + (fallback === undefined ? "" : ` (default: ${fallback})`) +
    (variable === undefined ? "" : `; variable ${variable}`),
);

const SWITCHES = ["no-identity-guard", "check", "version", "help", "h"] as const;

/** The variables with secrets. They have no options, because every user can see command lines. */
export const SECRETS = {
  slack: ["SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"],
  mattermost: ["MATTERMOST_TOKEN"],
} as const;

export const ENV_NAMES: readonly string[] = Object.values(OPTIONS).flatMap(({ variable = [] }) => variable);

/** The settings from the command line and the environment; paths are absolute. */
export type BridgeSettings = ReturnType<typeof readSettings>;

/** Reads the command line; an absent option comes from the environment. */
export function readSettings(args: readonly string[], { variables, workingFolder }: {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
}) {
  const { values, switches } = parse(args);
  const read = (name: string) => {
    const { variable = "", fallback = "" } = OPTIONS[name] ?? {};
    return values.get(name) ?? (variables[variable] || fallback);
  };
  const action = (["help", "version", "check"] as const).find((name) => switches.has(name)) ?? "run";
  const isPrinted = action === "version" || action === "help";
  const need = (name: string) => {
    const value = read(name);
    if (value !== "" || isPrinted) return value;
    throw refusal(`pass --${name}, or set the variable ${OPTIONS[name]?.variable}`);
  };
  const path = (name: string) => resolve(workingFolder, read(name));
  const cpUrl = isPrinted ? "https://127.0.0.1:7443" : readUrl("cp-url", need("cp-url"), "https://");
  const identityMap = read("identity-map");
  const hasGuard = !switches.has("no-identity-guard");
  if (hasGuard && identityMap === "" && !isPrinted) {
    throw refusal(
      "pass --identity-map, which prevents that people approve their own requests, or --no-identity-guard",
    );
  }
  if (!hasGuard && identityMap !== "") throw refusal("cannot use --identity-map with --no-identity-guard");
  return {
    cpUrl,
    cert: path("cert"),
    key: path("key"),
    ca: path("ca"),
    state: path("state"),
    /** `undefined`: the guard is off. */
    identityMap: hasGuard ? resolve(workingFolder, identityMap) : undefined,
    pollSeconds: readPoll(read("poll")),
    pageUrl: readPage(read("page-url") || `${cpUrl}/ui/approvals/{id}`),
    chat: isPrinted ? { kind: "slack" as const, channel: "", apiUrl: "" } : readChat(read, need),
    logFormat: parseLogFormat(read("log-format")),
    action,
  };
}

function parse(args: readonly string[]) {
  const values = new Map<string, string>();
  const switches = new Set<string>();
  const rest = args.values();
  for (const argument of rest) {
    const { name = "", value } = /^--?(?<name>[a-z][a-z-]*)(?:=(?<value>.*))?$/s.exec(argument)?.groups ?? {};
    if ((SWITCHES as readonly string[]).includes(name) && value === undefined) {
      switches.add(name === "h" ? "help" : name);
      continue;
    }
    if (!Object.hasOwn(OPTIONS, name)) {
      throw refusal(`unknown argument ${quoteText(argument)}; see --help`);
    }
    const given = value ?? rest.next().value ?? "";
    if (given === "" || given.startsWith("--")) throw refusal(`--${name} needs a value`);
    if (values.has(name)) throw refusal(`--${name} was passed twice`);
    values.set(name, given);
  }
  return { values, switches };
}

function readChat(read: (name: string) => string, need: (name: string) => string) {
  const kind = read("chat");
  switch (kind) {
    case "slack": {
      const channel = readId("slack-channel", need("slack-channel"), /^[CG][A-Z0-9]{1,30}$/, "C0123456789");
      return { kind, channel, apiUrl: `${readUrl("slack-api-url", need("slack-api-url"))}/` };
    }
    case "mattermost": {
      const name = "mattermost-channel";
      const channel = readId(name, need(name), /^[a-z0-9]{26}$/, "26 letters and digits");
      return { kind, channel, url: readUrl("mattermost-url", need("mattermost-url")) };
    }
    default:
      throw refusal(`--chat ${quoteText(kind)}: expected slack or mattermost`);
  }
}

/** A channel's ID: its name would mean another channel after a rename. */
function readId(option: string, value: string, form: RegExp, like: string): string {
  if (form.test(value) || value === "") return value;
  throw refusal(`--${option} ${quoteText(value)}: expected a channel ID, such as ${like}`);
}

function readUrl(option: string, value: string, prefix = ""): string {
  const url = URL.parse(value.includes("://") ? value : `${prefix}${value}`);
  const isLoopback = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(url?.hostname ?? "");
  const isSecure = url?.protocol === "https:" || (prefix === "" && url?.protocol === "http:" && isLoopback);
  if (url === null || !isSecure || `${url.username}${url.password}${url.search}${url.hash}` !== "") {
    throw refusal(`--${option} ${quoteText(value)}: expected https://host:port`);
  }
  return url.href.replace(/(?<!\/)\/+$/, "");
}

function readPage(template: string): string {
  const url = URL.parse(template.replaceAll("{id}", "0"));
  if (url?.protocol === "https:" && template.includes("{id}") && !/[\s<>|"]/.test(template)) return template;
  throw refusal(`--page-url ${quoteText(template)}: expected https://… with {id}`);
}

const LONGEST_POLL_SECONDS = 3600;

/** Zero and negative times mean the default, as existing scripts expect. */
function readPoll(text: string): number {
  const seconds = /^(?:-.*|0[a-z]*)$/.test(text) ? 5 : parseDuration(text);
  if (seconds <= LONGEST_POLL_SECONDS) return seconds;
  throw refusal(`--poll ${quoteText(text)}: expected at most an hour`);
}

function refusal(problem: string): AppError {
  return new AppError("invalid_request", `Cannot start the approval bridge: ${problem}`);
}

/** The bridge reads the files of its settings, writes its state, and connects to the control plane and the chat. */
export function bridgePermissions(settings: BridgeSettings): PermissionSet {
  const { cert, key, ca, state, identityMap, cpUrl, chat } = settings;
  return mergeSets(
    { read: [cert, key, ca, state, ...(identityMap === undefined ? [] : [identityMap])] },
    { write: [state], net: urlPermissions(cpUrl) },
    { env: [...ENV_NAMES, ...SECRETS[chat.kind]], ignoreEnv: "all" },
    chat.kind === "slack"
      // Slack's library reads the version of the system when it is loaded.
      ? { net: slackAddresses(chat.apiUrl), sys: ["osRelease"] }
      : { net: urlPermissions(chat.url) },
  );
}

/** The files that other users must not change: anyone in the identity map may approve. */
export function bridgeUsedFiles({ key, ca, identityMap = "", state }: BridgeSettings): readonly UsedFile[] {
  return [
    { key: "--key", path: key, use: "secret" },
    { key: "--ca", path: ca, use: "relied_on" },
    { key: "--identity-map", path: identityMap, use: "relied_on" },
    { key: "--state", path: state, use: "secret" },
  ];
}

/** Slack opens each socket at a new host name below the domain of its API. */
function slackAddresses(apiUrl: string): readonly string[] {
  const [address = ""] = urlPermissions(apiUrl);
  return /^[a-z]/.test(address) && !address.startsWith("localhost:") ? [address, `*.${address}`] : [address];
}
