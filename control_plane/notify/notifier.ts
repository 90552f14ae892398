import { createHmac, createSecretKey } from "node:crypto";
import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { accessKind, describeAccess, elevationLabel, isCommandShown } from "@gateway/shared/policy";
import type { Redactor } from "@gateway/shared/redact";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type ApprovalConfig, webhookUrlProblem } from "../config/config.ts";
import { cutWithNote, MAX_COMMAND_LENGTH, MAX_VALUE_LENGTH } from "./facts.ts";
import { CLAIM_MS, type NotificationResult, type NotificationStore, Outbox, postJson } from "./outbox.ts";
import { createApprovalLink, teamsMessageCard, teamsWorkflowMessage } from "./teams.ts";

/** Notifies approvers of pending requests. */
export interface Notifier {
  /**
   * Returns immediately and never throws. Failures are logged and counted.
   *
   * @param until the end of this process's claim in the store, in milliseconds since the epoch
   */
  notify(approval: ApprovalRecord, until?: number): void;
  /** Waits a bounded time for pending notifications. */
  close(): Promise<void>;
}

interface NotifierOptions {
  readonly config: ApprovalConfig;
  readonly redact: Redactor;
  readonly store: NotificationStore;
  /** The approval for approvers; `undefined` if this process does not know it, or announces it with another one. */
  readonly find: (id: string) => ApprovalRecord | undefined;
  readonly fetch: typeof fetch;
  /** The clock of all processes with the same store. */
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly metrics: Metrics;
  /** The value of the variable that `webhook_secret_env` names. */
  readonly secret: string | undefined;
}

/** @throws {AppError} `invalid_config` if the notifier's settings are unusable */
export function createNotifier(options: NotifierOptions): Notifier {
  const { config, metrics, redact, fetch, clock, logger, store, find } = options;
  const counter = metrics.counter("controlplane_notifications_total", "Notifications by result", ["result"]);
  const count = (result: NotificationResult) => counter.inc({ result });
  if (config.notifier === "log") {
    return {
      notify(approval) {
        try {
          logger.info(pendingLine(redactRecord(approval, redact)));
          count("sent");
        } catch {
          count("failed");
          logger.warn("approval notification not written", { approval: approval.id });
        }
      },
      close: () => Promise.resolve(),
    };
  }
  const link = createApprovalLink(config.notifier === "teams" ? config.approval_url_template : "");
  const writeTeams = config.teams_format === "messagecard" ? teamsMessageCard : teamsWorkflowMessage;
  const url = webhookTarget(config.webhook_url);
  const sign = createSigner(options);
  const outbox = new Outbox({
    ...{ store, find, clock, logger, count },
    prepare(approval) {
      const { id } = approval;
      const record = redactRecord(approval, redact);
      const body = stringifyJson(config.notifier === "teams" ? writeTeams(record, link) : record);
      return (signal) => {
        // Unsigned messages have the ID too: a message may come twice, and the card of Teams has no field for it.
        const headers = { "webhook-id": id, ...sign?.({ id, sentAt: clock.now(), body }) };
        return postJson({ fetch, clock, url, headers, body, signal });
      };
    },
  });
  outbox.start();
  return { notify: (approval, until) => outbox.add(approval, until), close: () => outbox.close() };
}

/** The time that a process has to send a notification; 0: nothing is sent. */
export function notificationMs({ notifier }: ApprovalConfig): number {
  return notifier === "log" ? 0 : CLAIM_MS;
}

function createSigner(
  { config, secret }: NotifierOptions,
): ReturnType<typeof createWebhookSigner> | undefined {
  if (config.webhook_secret_env === "" && secret === undefined) return undefined;
  if (secret !== undefined && secret !== "") return createWebhookSigner(secret);
  throw new AppError(
    "invalid_config",
    `Cannot sign webhooks: environment variable ${
      JSON.stringify(config.webhook_secret_env)
    } of approval.webhook_secret_env is not set or empty`,
  );
}

const PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/**
 * Creates the signing headers of Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`. The ID, without a dot,
 * is the same for every attempt.
 *
 * @param secret `whsec_` and 24 to 64 bytes in base64
 * @throws {AppError} `invalid_config` for another secret
 */
export function createWebhookSigner(secret: string) {
  const key = createSecretKey(decodeSecret(secret));
  return ({ id, sentAt, body }: { readonly id: string; readonly sentAt: number; readonly body: string }) => {
    const timestamp = Math.floor(sentAt / 1000).toString();
    const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`);
    return {
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": `v1,${hmac.digest("base64")}`,
    };
  };
}

function decodeSecret(secret: string): Uint8Array {
  if (!secret.startsWith(PREFIX)) throw unusable(`must begin with ${PREFIX}`);
  let key: Uint8Array;
  try {
    key = Uint8Array.fromBase64(secret.slice(PREFIX.length), { lastChunkHandling: "strict" });
  } catch {
    // The decoder's own error could quote the secret.
    throw unusable(`must be ${PREFIX} followed by base64`);
  }
  if (key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES) return key;
  throw unusable(`must hold ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} bytes in base64`);
}

function unusable(problem: string): AppError {
  return new AppError(
    "invalid_config",
    `Cannot use the secret of approval.webhook_secret_env: it ${problem}`,
  );
}

/** @throws {AppError} `invalid_config` without the address, which may hold a secret */
function webhookTarget(url: string): URL {
  const problem = webhookUrlProblem(url);
  const target = URL.parse(url);
  if (problem === undefined && target !== null) return target;
  throw new AppError("invalid_config", `Cannot use approval.webhook_url: ${problem ?? "is not a URL"}`);
}

const FREE_TEXTS = ["sudo_user", "rule", "reason", "comment"] as const;

/** Masks free texts. Names stay, because decisions depend on them. */
function redactRecord(record: ApprovalRecord, redact: Redactor): ApprovalRecord {
  const { command, anomalies, content_head } = record;
  const texts = FREE_TEXTS.flatMap((key) => record[key] === undefined ? [] : [[key, redact(record[key])]]);
  return {
    ...record,
    ...Object.fromEntries(texts),
    command: redact(command),
    ...(content_head !== undefined && { content_head: redact(wholeWords(content_head, record)) }),
    // `new-command:` holds the command's first word, which may be an assignment.
    ...(anomalies !== undefined && { anomalies: anomalies.map(redact) }),
  };
}

/** Without the last word of a truncated text, which may be half a secret. */
function wholeWords(head: string, { content_bytes = Infinity }: ApprovalRecord): string {
  const isCut = content_bytes > new TextEncoder().encode(head).length;
  return isCut ? head.slice(0, head.search(/\s\S*$/) + 1) : head;
}

const BARE = /^[\w.@:/+-]*$/;

/** One line of `key=value`. Values with more than the characters of names are quoted, so that none looks like a key. */
export function pendingLine(record: ApprovalRecord): string {
  const { id, caller, end_user = "", host, command, sudo, sudo_user, access, rule = "", reason = "" } =
    record;
  return [
    "[approval] PENDING",
    ...Object.entries({ id, caller, user: end_user, host }).map(([key, value]) => field(key, value)),
    `cmd=${quoteText(cutWithNote(command, MAX_COMMAND_LENGTH))}`,
    field("elevation", elevationLabel(sudo, sudo_user) || "none"),
    ...(access === undefined ? [] : [field("access", access.join("+"))]),
    field("rule", rule),
    ...(isCommandShown(accessKind(record)) ? [] : [`asks=${quoteText(describeAccess(record))}`]),
    ...(reason === "" ? [] : [`reason=${quoteText(reason)}`]),
  ].join(" ");
}

function field(key: string, value: string): string {
  const text = cutWithNote(value, MAX_VALUE_LENGTH);
  return `${key}=${BARE.test(text) ? text : quoteText(text)}`;
}
