import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import type { Redactor } from "@gateway/shared/redact";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { type ApprovalConfig, webhookUrlProblem } from "../config/config.ts";
import { createApprovalLink, teamsMessageCard, teamsWorkflowMessage } from "./teams.ts";
import { CLAIM_MS, type NotificationResult, type NotificationStore, Outbox, postJson } from "./outbox.ts";
import { createWebhookSigner, type WebhookSigner } from "./signature.ts";
import { askedKind, describeAsked, elevationLabel, isCommandShown } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { cutWithNote, MAX_COMMAND_LENGTH, MAX_VALUE_LENGTH } from "./facts.ts";

/** Tells approvers that a request waits for them. */
export interface Notifier {
  /**
   * Returns at once and never throws; what goes wrong is logged and counted.
   *
   * @param until until when nobody else tells of it, as the store knows, in milliseconds since the epoch
   */
  notify(approval: ApprovalRecord, until?: number): void;
  /** Waits a bounded time for what is under way. */
  close(): Promise<void>;
}

/** What {@linkcode createNotifier} needs. */
interface NotifierOptions {
  readonly config: ApprovalConfig;
  readonly redact: Redactor;
  /** Where it is kept what is to be sent. */
  readonly store: NotificationStore;
  /** An approval as approvers see it now; `undefined`: this process does not know it, or tells of it with another. */
  readonly find: (id: string) => ApprovalRecord | undefined;
  readonly fetch: typeof fetch;
  /** The one that processes with the same store go by. */
  readonly clock: Clock;
  readonly logger: ServiceLogger;
  readonly metrics: Metrics;
  /** The value of the variable that `webhook_secret_env` names. */
  readonly secret: string | undefined;
}

/** The text of a request's body. */
type BodyWriter = (approval: ApprovalRecord) => string;

/**
 * The notifier that the config asks for.
 *
 * @throws {AppError} `invalid_config` when it can't work as configured
 */
export function createNotifier(options: NotifierOptions): Notifier {
  const { config, metrics } = options;
  const counter = metrics.counter(
    "controlplane_notifications_total",
    "Approval notifications by result.",
    ["result"],
  );
  const count = (result: NotificationResult) => counter.inc({ result });
  switch (config.notifier) {
    case "log":
      return logNotifier(options, count);
    case "webhook":
      return postNotifier(options, count, stringifyJson);
    case "teams":
      return postNotifier(options, count, teamsWriter(config));
    default:
      throw unknown("notifier", config.notifier satisfies never);
  }
}

/** How long a process has to send a notification before others may, in milliseconds; 0: nothing is sent. */
export function notificationMs({ notifier }: ApprovalConfig): number {
  // A line of its own log, written at once.
  return notifier === "log" ? 0 : CLAIM_MS;
}

function logNotifier(
  { redact, logger }: NotifierOptions,
  count: (result: NotificationResult) => void,
): Notifier {
  return {
    notify(approval) {
      try {
        logger.info(pendingLine(redactRecord(approval, redact)));
        count("sent");
      } catch {
        count("failed");
        logger.warn("Cannot write approval notification", { approval: approval.id });
      }
    },
    close: () => Promise.resolve(),
  };
}

function postNotifier(
  options: NotifierOptions,
  count: (result: NotificationResult) => void,
  writeBody: BodyWriter,
): Notifier {
  const { config, redact, fetch, clock, logger, store, find } = options;
  const url = webhookTarget(config.webhook_url);
  const sign = createSigner(options);
  const outbox = new Outbox({
    store,
    find,
    clock,
    logger,
    count,
    prepare(approval) {
      const { id } = approval;
      const body = writeBody(redactRecord(approval, redact));
      return (signal) => {
        // Also unsigned: it may come twice, and the card of Teams has no field for it.
        const headers = { "webhook-id": id, ...sign?.({ id, sentAt: clock.now(), body }) };
        return postJson({ fetch, clock, url, headers, body, signal });
      };
    },
  });
  outbox.start();
  return { notify: (approval, until) => outbox.add(approval, until), close: () => outbox.close() };
}

function teamsWriter({ teams_format, approval_url_template }: ApprovalConfig): BodyWriter {
  const link = createApprovalLink(approval_url_template);
  switch (teams_format) {
    case "workflow":
    case "adaptivecard":
      return (approval) => stringifyJson(teamsWorkflowMessage(approval, link));
    case "messagecard":
      return (approval) => stringifyJson(teamsMessageCard(approval, link));
    default:
      throw unknown("teams_format", teams_format satisfies never);
  }
}

function createSigner({ config, secret }: NotifierOptions): WebhookSigner | undefined {
  if (config.webhook_secret_env === "" && secret === undefined) return undefined;
  if (secret !== undefined && secret !== "") return createWebhookSigner(secret);
  throw new AppError(
    "invalid_config",
    `Cannot sign webhooks: environment variable ${
      JSON.stringify(config.webhook_secret_env)
    } of approval.webhook_secret_env is not set or empty`,
  );
}

/** The schema let it pass, this code does not know it: silence would look like approvers who never answer. */
function unknown(key: string, value: string): AppError {
  return new AppError("invalid_config", `Cannot use approval.${key} ${JSON.stringify(value)}: it is unknown`);
}

/**
 * Where notifications are posted to. Plain http is for this machine only: the commands of others would cross
 * the network for all to read.
 *
 * @throws {AppError} `invalid_config`; the message leaves out the address, which may hold a secret
 */
function webhookTarget(url: string): URL {
  const problem = webhookUrlProblem(url);
  const target = URL.parse(url);
  if (problem === undefined && target !== null) return target;
  throw new AppError("invalid_config", `Cannot use approval.webhook_url: ${problem ?? "is not a URL"}`);
}

/** A copy whose free texts are masked. Names (host, caller, end user) stay: they are what is decided on. */
function redactRecord(record: ApprovalRecord, redact: Redactor): ApprovalRecord {
  const { command, sudo_user, rule, anomalies, reason, comment, content_head } = record;
  return {
    ...record,
    command: redact(command),
    ...(sudo_user !== undefined && { sudo_user: redact(sudo_user) }),
    ...(rule !== undefined && { rule: redact(rule) }),
    ...(reason !== undefined && { reason: redact(reason) }),
    ...(comment !== undefined && { comment: redact(comment) }),
    ...(content_head !== undefined && { content_head: redact(wholeWords(content_head, record)) }),
    // `new-command:` holds the command's first word, which may be an assignment.
    ...(anomalies !== undefined && { anomalies: anomalies.map(redact) }),
  };
}

/** The first lines of a file; where there is more, without the last word, which may be half a secret. */
function wholeWords(head: string, { content_bytes = Infinity }: ApprovalRecord): string {
  const isCut = content_bytes > new TextEncoder().encode(head).length;
  return isCut ? head.slice(0, head.search(/\s\S*$/) + 1) : head;
}

const BARE = /^[\w.@:/+-]*$/;

/**
 * A pending approval as one line of `key=value`. The command is always quoted, other values where they hold more
 * than the characters of names, so that nothing in a value looks like another key.
 */
export function pendingLine(record: ApprovalRecord): string {
  const { id, caller, end_user = "", host, command, sudo, sudo_user, access, rule = "", reason = "" } =
    record;
  const fields = Object.entries({ id, caller, user: end_user, host }).map(([key, value]) =>
    field(key, value)
  );
  return [
    "[approval] PENDING",
    ...fields,
    `cmd=${quoteText(cutWithNote(command, MAX_COMMAND_LENGTH))}`,
    field("elevation", elevationLabel(sudo, sudo_user) || "none"),
    ...(access === undefined ? [] : [field("access", access.join("+"))]),
    field("rule", rule),
    // Where no command says it.
    ...(isCommandShown(askedKind(record)) ? [] : [`asks=${quoteText(describeAsked(record))}`]),
    ...(reason === "" ? [] : [`reason=${quoteText(reason)}`]),
  ].join(" ");
}

function field(key: string, value: string): string {
  const text = cutWithNote(value, MAX_VALUE_LENGTH);
  return `${key}=${BARE.test(text) ? text : quoteText(text)}`;
}
