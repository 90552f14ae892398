/**
 * The schema of `control-plane.json`. The control plane loads its config by this schema, and its permission
 * set is derived from the config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { controlPlaneConfig } from "@gateway/control-plane/config";
 *
 * assert.equal(controlPlaneConfig.safeParse({ listen: 7443 }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { DATABASE_ACCESS_SHAPE, findStateProblems, type StateSettings } from "@gateway/shared/state";
import { type RedactConfig, redactConfig } from "@gateway/shared/redact";
import { type SignerClientConfig, signerClientConfig } from "@gateway/shared/config";

const NOTIFIERS = ["log", "webhook", "teams"] as const;
/** The ways to notify approvers. */
export type NotifierName = (typeof NOTIFIERS)[number];

/** `adaptivecard` is another name of `workflow`. */
const TEAMS_FORMATS = ["workflow", "adaptivecard", "messagecard"] as const;

const BEHAVIOR_MODES = ["off", "observe", "enforce"] as const;
/** The effect of the guardrails. */
export type BehaviorMode = (typeof BEHAVIOR_MODES)[number];

/** The `approval` block after defaults. */
export interface ApprovalConfig
  extends
    Readonly<Record<"webhook_url" | "webhook_secret_env" | "approval_url_template", string>>,
    Readonly<Record<"timeout_seconds" | "max_pending_per_caller", number>> {
  readonly notifier: NotifierName;
  readonly callers: readonly string[];
  readonly teams_format: (typeof TEAMS_FORMATS)[number];
}

/** The `behavior` block after defaults. */
export interface BehaviorConfig {
  readonly mode: BehaviorMode;
  /** 0 means no limit. */
  readonly rate_limit_per_min: number;
  readonly max_subjects: number;
  readonly subject_ttl_minutes: number;
  readonly max_distinct_per_subject: number;
}

/** The control plane's config after defaults. Paths are as written; relative ones are relative to the working directory. */
export interface ControlPlaneConfig
  extends
    StateSettings,
    Readonly<Record<"listen" | "server_cert" | "server_key" | "client_ca" | "denied_callers", string>>,
    Readonly<Record<"audit_log" | "audit_key" | "monitor_listen", string>>,
    Readonly<Record<"sign_callers" | "trusted_forwarders", readonly string[]>> {
  readonly signer: SignerClientConfig;
  readonly approval: ApprovalConfig;
  readonly behavior: BehaviorConfig;
  readonly audit_fail_mode: "closed" | "open" | "";
  readonly redact?: RedactConfig;
  /** Empty: the host's name. */
  readonly instance: string;
}

/** A year. */
const LONGEST_TIMEOUT_SECONDS = 366 * 86_400;

const path = z.string().min(1);
const names = z.array(z.string()).default([])
  // An empty CN identifies no caller.
  .transform((list) => list.filter((name) => name !== ""));

/** 0 means the default, as in the reference. */
const orDefault = (fallback: number) =>
  z.int().min(0).default(fallback).transform((value) => value > 0 ? value : fallback);

const approvalConfig: z.ZodType<ApprovalConfig> = z.strictObject({
  notifier: z.enum(["", ...NOTIFIERS]).default("log").transform((name) => name === "" ? "log" : name)
    .describe("channel for notifications of pending approvals"),
  webhook_url: z.string().default("").describe("URL for webhook and teams: https, or http on this machine"),
  webhook_secret_env: z.string().default("").describe(
    "environment variable with the signing secret (whsec_…) of webhooks; empty: unsigned",
  ),
  // A time that is not positive means the default, as in the reference.
  timeout_seconds: z.int().max(LONGEST_TIMEOUT_SECONDS).default(120).transform((value) =>
    value > 0 ? value : 120
  ).describe(
    "time for a decision, and again for its collection, in seconds; pending requests keep their own",
  ),
  callers: names.describe("CNs of approvers; if empty, all requests that need approval expire"),
  teams_format: z.enum(["", ...TEAMS_FORMATS]).default("workflow").transform((name) =>
    name === "" ? "workflow" : name
  )
    .describe("layout of messages to Teams"),
  approval_url_template: z.string().default("").describe(
    "URL of a request page, with {id}, for notifications; browsers can decide only from its origin",
  ),
  max_pending_per_caller: orDefault(100).describe(
    "maximum of pending requests per caller; each of its end users may have a quarter; 0 means 100",
  ),
});

const behaviorConfig: z.ZodType<BehaviorConfig> = z.strictObject({
  mode: z.enum(["", ...BEHAVIOR_MODES]).default("off").transform((name) => name === "" ? "off" : name)
    .describe("off, observe (audit only) or enforce"),
  rate_limit_per_min: z.int().min(0).default(0).describe("requests per minute and subject; 0 means no limit"),
  max_subjects: orDefault(4096).describe("maximum of remembered subjects; 0 means 4096"),
  subject_ttl_minutes: orDefault(1440).describe("minutes until an idle subject is forgotten; 0 means 1440"),
  max_distinct_per_subject: orDefault(1024).describe(
    "maximum of hosts and of commands per subject; beyond it nothing counts as new; 0 means 1024",
  ),
});

/** The schema; unknown keys are rejected. */
export const controlPlaneConfig: z.ZodType<ControlPlaneConfig> = z.strictObject({
  listen: z.string().min(1).default(":7443").describe("address of the mTLS listener, host:port"),
  server_cert: path.describe("PEM file, the listener's certificate"),
  server_key: path.describe("PEM file, the listener's private key"),
  client_ca: path.describe("PEM file, the CA that signs the certificates of brokers and approvers"),
  denied_callers: z.string().default("").describe(
    "file with CNs, one per line, whose certificates are rejected; read every 10 seconds; empty means none",
  ),
  sign_callers: names.describe(
    "CNs of the brokers that may request signing; empty means every caller except approvers",
  ),
  signer: signerClientConfig.describe("signer that receives the requests"),
  approval: approvalConfig.prefault({}).describe("approval by a second human"),
  behavior: behaviorConfig.prefault({}).describe("guardrails against unusual requests"),
  trusted_forwarders: names.describe("CNs of the brokers whose end user names are trusted"),
  audit_log: path.describe("audit log, in a separate directory"),
  audit_key: path.describe("file whose first 32 bytes are the Ed25519 seed that signs audit records"),
  audit_fail_mode: z.enum(["", "closed", "open"]).default("closed")
    .describe("closed: no audit record, no approval; open: log and proceed"),
  monitor_listen: z.string().default("").describe("address of the monitor listener; empty means none"),
  redact: redactConfig.exactOptional().describe(
    "rules that mask secrets in audit texts and notifications; absent means the built-in rules",
  ),
  state_db: z.string().default("").describe(
    "database of approvals and baselines: an SQLite file, or postgres://user@host:5432,host:5432/database for several " +
      "control planes (the primary is used; TLS except for loopback, Unix sockets such as %2Frun%2Fpostgresql, and " +
      "?sslmode=disable); empty means memory only",
  ),
  ...DATABASE_ACCESS_SHAPE,
  instance: z.string().regex(/^[A-Za-z0-9._-]{0,64}$/).default("").describe(
    "name of this instance if several share a database; empty means the host's name",
  ),
}).superRefine(({ approval, ...settings }, context) => {
  for (const [key, message] of findStateProblems(settings)) {
    context.addIssue({ code: "custom", path: [key], message, input: undefined });
  }
  if (approval.notifier === "log") return;
  const problem = webhookUrlProblem(approval.webhook_url);
  if (problem !== undefined) {
    context.addIssue({ code: "custom", path: ["approval", "webhook_url"], message: problem });
  }
});

/** Finds the problem of a webhook's address. */
export function webhookUrlProblem(url: string): string | undefined {
  if (url === "") return "is required for notifier webhook and teams";
  const parsed = URL.parse(url);
  if (parsed?.protocol === "https:") return undefined;
  if (parsed?.protocol === "http:" && isLoopback(parsed.hostname)) return undefined;
  return "must be an https:// URL, or http:// on this machine";
}

function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/** Warnings about a valid but weak config. */
export function configWarnings(config: ControlPlaneConfig): readonly string[] {
  const { approval, sign_callers, behavior, state_db, trusted_forwarders } = config;
  const both = sign_callers.filter((caller) => approval.callers.includes(caller));
  const ignored = trusted_forwarders.filter((caller) =>
    sign_callers.length > 0 && !sign_callers.includes(caller)
  );
  const warnings: readonly (readonly [boolean, string])[] = [
    [approval.callers.length === 0, "approval.callers is empty: requests that need approval expire"],
    [
      approval.callers.length > 0 && approval.approval_url_template === "",
      "approval.approval_url_template is empty: notifications have no link, and browsers that send an Origin header " +
      "cannot decide",
    ],
    [
      sign_callers.length === 0,
      "sign_callers is empty: every certificate of client_ca except the approvers' may request signing",
    ],
    [
      both.length > 0,
      `in sign_callers and in approval.callers: ${both.join(", ")}: may decide requests of other callers`,
    ],
    [
      ignored.length > 0,
      `in trusted_forwarders and not in sign_callers: ${ignored.join(", ")}: has no effect`,
    ],
    [behavior.mode === "off", "behavior.mode is off: unusual requests are not detected"],
    [state_db === "", "state_db is not set: approvals are lost when the process ends"],
  ];
  return warnings.flatMap(([applies, warning]) => applies ? [warning] : []);
}
