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
import { isProviderUrl } from "@gateway/shared/oidc/model";
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

/** The `ui` block after defaults. */
export interface UiConfig
  extends
    Readonly<Record<"url" | "server_cert" | "server_key" | "issuer" | "issuer_ca", string>>,
    Readonly<Record<"client_id" | "client_secret_file" | "user_claim" | "groups_claim", string>>,
    Readonly<Record<"groups" | "scopes", readonly string[]>>,
    Readonly<Record<"idle_timeout_seconds" | "session_max_seconds", number>> {}

/** The control plane's config after defaults. Paths are as written; relative ones are relative to the working directory. */
export interface ControlPlaneConfig
  extends
    StateSettings,
    Readonly<Record<"listen" | "server_cert" | "server_key" | "client_ca" | "denied_callers", string>>,
    Readonly<Record<"audit_log" | "audit_key" | "monitor_listen" | "ui_listen", string>>,
    Readonly<Record<"sign_callers" | "trusted_forwarders", readonly string[]>> {
  readonly signer: SignerClientConfig;
  readonly approval: ApprovalConfig;
  readonly behavior: BehaviorConfig;
  /** Present exactly if `ui_listen` is not empty. */
  readonly ui?: UiConfig;
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
  callers: names.describe(
    "CNs of approvers; if empty and without ui, all requests that need approval expire",
  ),
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

const uiConfig: z.ZodType<UiConfig> = z.strictObject({
  url: z.string().refine(
    (text) => text.startsWith("https://") && URL.parse(text)?.origin === text,
    "must be https://host or https://host:port, without a path",
  ).describe("address of the pages in browsers; register URL/ui/callback as redirect URI of the client"),
  server_cert: z.string().default("").describe(
    "PEM file, the certificate of ui_listen; empty means server_cert",
  ),
  server_key: z.string().default("").describe(
    "PEM file, the private key of ui_listen; empty means server_key",
  ),
  issuer: z.string().refine(
    (text) => isProviderUrl(text) && !/[?#\s]/.test(text),
    "must be an https URL without query and fragment (http on loopback only)",
  ).describe(
    "URL of the OpenID provider, exactly as in its tokens; its endpoints must be on the same host and port",
  ),
  issuer_ca: z.string().default("").describe(
    "PEM file, additional CAs of the provider's certificate; empty means only public CAs",
  ),
  client_id: z.string().min(1).describe("ID of this client at the provider"),
  client_secret_file: path.describe("file with the secret of this client"),
  scopes: z.array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]+$/, "must be a scope without spaces"))
    .default(["email", "profile"]).describe("requested scopes in addition to openid"),
  user_claim: z.string().min(1).default("email").describe(
    "claim of the ID token with the approver's name; email counts only if email_verified is true",
  ),
  groups_claim: z.string().min(1).default("groups").describe("claim of the ID token with the groups"),
  groups: z.array(z.string().min(1)).min(1).describe("groups whose members are approvers"),
  idle_timeout_seconds: orDefault(1800).describe(
    "seconds without activity until a session ends; 0 means 1800",
  ),
  session_max_seconds: orDefault(28_800).describe("seconds until a session ends in any case; 0 means 28800"),
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
  ui_listen: z.string().default("").describe(
    "address of a second listener, without client certificates, for the pages of approvers who sign in with the " +
      "company's account; requires ui; empty means none",
  ),
  ui: uiConfig.exactOptional().describe("sign-in on ui_listen with OpenID Connect"),
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
}).superRefine(({ approval, ui_listen, ui, ...settings }, context) => {
  for (const [key, message] of findUiProblems(ui_listen, ui)) {
    context.addIssue({ code: "custom", path: [key], message, input: undefined });
  }
  for (const [key, message] of findStateProblems(settings)) {
    context.addIssue({ code: "custom", path: [key], message, input: undefined });
  }
  if (approval.notifier === "log") return;
  const problem = webhookUrlProblem(approval.webhook_url);
  if (problem !== undefined) {
    context.addIssue({ code: "custom", path: ["approval", "webhook_url"], message: problem });
  }
});

function findUiProblems(listen: string, ui: UiConfig | undefined): readonly (readonly [string, string])[] {
  if (ui === undefined) return listen === "" ? [] : [["ui", "is required for ui_listen"]];
  const isHalf = (ui.server_cert === "") !== (ui.server_key === "");
  return [
    ...listen === "" ? [["ui_listen", "is required for ui"] as const] : [],
    ...isHalf ? [["ui", "must have both of server_cert and server_key, or neither"] as const] : [],
  ];
}

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
  const { approval, sign_callers, behavior, state_db, trusted_forwarders, ui } = config;
  const both = sign_callers.filter((caller) => approval.callers.includes(caller));
  const ignored = trusted_forwarders.filter((caller) =>
    sign_callers.length > 0 && !sign_callers.includes(caller)
  );
  const warnings: readonly (readonly [boolean, string])[] = [
    [
      approval.callers.length === 0 && ui === undefined,
      "approval.callers is empty: requests that need approval expire",
    ],
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
