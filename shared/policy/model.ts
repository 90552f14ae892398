// The policy as an operator writes it: hosts, callers, command policies and clusters. The schemas describe
// each key.
import * as z from "@zod/zod";
import { hasInvisible } from "../text.ts";
import { ENVELOPE_DOMAIN, ENVELOPE_VERSIONS, type EnvelopeVersion } from "../envelope/mod.ts";
import type { Enforcement } from "../wire/sign.ts";
import type { ExtraResource } from "../wire/inventory.ts";

type Optional<Name extends string, Value> = { readonly [Each in Name]?: Value };

/** One command policy, of a host or in the library. */
export interface CommandPolicy extends Optional<"allow" | "deny" | "require_approval", readonly string[]> {
  readonly mode?: "" | "off" | "allowlist" | "denylist";
  readonly enforcement?: Enforcement | "";
  /** Absent is true. */
  readonly shell_parse?: boolean;
}

type HostText = "jump" | "principal" | "source_address" | "login_shell" | "envelope_domain" | "shim_command";
type HostFlag =
  | "allow_as_bastion"
  | `allow_${"sudo" | "pty" | "file_transfer"}`
  | "stop_on_disconnect"
  | "unsealed_sessions"
  | "sealed_exec"
  | "shared_principal";

/** One host. */
export interface HostPolicy
  extends
    Readonly<Record<"addr" | "user" | "host_key", string>>,
    Optional<HostText, string>,
    Optional<HostFlag, boolean>,
    Optional<"allowed_callers" | "allowed_sudo_users" | "groups", readonly string[]> {
  readonly max_ttl_seconds?: number;
  readonly approvals_required?: number;
  readonly envelope?: EnvelopeVersion;
  readonly command_policy?: CommandPolicy;
}

/** One row of the callers table. */
export interface CallerPolicy
  extends
    Optional<"allowed_groups" | "only_via", readonly string[]>,
    Optional<"self_approve" | "require_verified_end_user", boolean> {}

/** A passkey as its registration page shows it. */
export interface PasskeyConfig {
  /** The ID of the credential, base64url. */
  readonly id: string;
  /** The public key, base64url of its DER (SubjectPublicKeyInfo). */
  readonly public_key: string;
}

/** A person who may sign approvals. */
export interface ApproverConfig extends Optional<"ssh_keys" | "groups" | "identities", readonly string[]> {
  readonly passkeys?: readonly PasskeyConfig[];
}

/** The whole policy. */
export interface PolicyConfig {
  readonly hosts: Readonly<Record<string, HostPolicy>>;
  /** Callers by CN; the row `_default` is for all others. Empty: no restriction by groups. */
  readonly callers: Readonly<Record<string, CallerPolicy>>;
  readonly command_policies: Readonly<Record<string, CommandPolicy>>;
  /** Names of command policies by host group. */
  readonly group_command_policies: Readonly<Record<string, readonly string[]>>;
  /** The cap of hosts without their own, in seconds; 0 is the built-in 300. */
  readonly max_ttl_seconds: number;
  readonly kubernetes?: KubernetesConfig;
  /** How many people must sign an approval; a config without it requires no signatures. */
  readonly approvals?: {
    readonly required: number;
    readonly required_by_group: Readonly<Record<string, number>>;
    /** The people who may sign. The policy compares them, and does not verify signatures. */
    readonly approvers?: Readonly<Record<string, ApproverConfig>>;
    readonly passkey_rp_id?: string;
    readonly passkey_origins?: readonly string[];
  };
  /** A file of expected decisions, without which the policy is not loaded. Empty or absent: none. */
  readonly policy_tests?: string;
}

/** The longest lifetime of a certificate, in seconds. */
export const MAX_TTL_SECONDS = 900;

/** The most people that a config can require for one approval. */
export const MAX_REQUIRED_APPROVALS = 8;

/** The shim of sealed hosts, a program on sshd's default PATH. */
export const SHIM_COMMAND = "gateway-shim";

const strings = (about: string) => z.array(z.string()).exactOptional().describe(about);
const flag = (about: string) => z.boolean().exactOptional().describe(about);
const text = (about: string) => z.string().exactOptional().describe(about);

const approvalsRequired = z.int().min(0).max(MAX_REQUIRED_APPROVALS).exactOptional().describe(
  "number of different people who must sign each approval; the largest number of this key, approvals.required and " +
    "approvals.required_by_group applies",
);

/** Checks a {@linkcode CommandPolicy}; unknown keys are rejected. */
export const commandPolicy: z.ZodType<CommandPolicy> = z.strictObject({
  mode: z.enum(["", "off", "allowlist", "denylist"]).exactOptional()
    .describe(
      "off (or empty): no restriction; allowlist: a command must match a pattern; denylist: a command must not match",
    ),
  enforcement: z.enum(["", "enforce", "audit"]).exactOptional()
    .describe("enforce (or empty) blocks; audit allows and warns"),
  allow: strings("RE2 patterns; in allowlist mode a command must match one"),
  deny: strings("RE2 patterns of denied commands; deny always wins"),
  require_approval: strings("RE2 patterns of commands that need an approval, in every mode"),
  shell_parse: flag(
    "false: match the whole text; true (default): parse as POSIX sh and match each command",
  ),
});

/** Checks a {@linkcode HostPolicy}; unknown keys are rejected. */
export const hostPolicy: z.ZodType<HostPolicy> = z.strictObject({
  addr: z.string().default("").describe("host:port to connect to; if empty, brokers cannot connect"),
  user: z.string().min(1).describe("account on the host"),
  host_key: z.string().default("").describe(
    "pinned host key, an authorized_keys line; if empty, brokers cannot connect",
  ),
  jump: text("logical name of the bastion in front of the host"),
  principal: text("principal of the certificate, by convention host:<name>"),
  source_address: text("address or CIDR from which the certificate is accepted"),
  max_ttl_seconds: z.int().min(0).max(MAX_TTL_SECONDS).exactOptional().describe(
    "longest lifetime of a certificate, in seconds; 0 means the global limit",
  ),
  approvals_required: approvalsRequired,
  allow_as_bastion: flag("the host is a bastion for other hosts"),
  allowed_callers: strings("caller CNs that may use the host; empty means any caller"),
  allow_sudo: flag("sudo -n is allowed"),
  allowed_sudo_users: strings("accounts that sudo may change to; allow_sudo implies root"),
  allow_pty: flag("a pseudo-terminal may be requested"),
  allow_file_transfer: flag("files may be read and written"),
  stop_on_disconnect: flag(
    "one-shot commands and commands of exec sessions end with their connection, because a watcher reads their " +
      "standard input; needs a POSIX login shell, and with sudo a sudoers rule for /bin/sh",
  ),
  login_shell: z.string().regex(
    /^\/[\x21-\x7e]+$/,
    "must be an absolute path without spaces, as in /etc/passwd",
  )
    .exactOptional().describe(
      "login shell of the account, as in /etc/passwd: the signer warns if command rules are not proved for this " +
        "shell; no decision depends on this key",
    ),
  unsealed_sessions: flag(
    "false: on an unsealed host with command rules, the signer issues no session certificates, which could run any " +
      "command, and brokers request a certificate for each command of an exec session; true (default): brokers of " +
      "other builds can open sessions",
  ),
  sealed_exec: flag(
    "sessions run only commands that the signer has individually signed; needs envelope_key and a shim on the host",
  ),
  envelope: z.enum(ENVELOPE_VERSIONS).exactOptional().describe(
    "envelope format of the host's shim: v3 also binds the standard input (broker-ctl host seal writes it); with v2 " +
      "(default) and v1 (JSON) the broker chooses the standard input",
  ),
  envelope_domain: z.string().min(1).refine((text) => !hasInvisible(text), "must not have control characters")
    .exactOptional()
    .describe(`with envelope v1: domain that the shim of another build expects; default ${ENVELOPE_DOMAIN}`),
  shim_command: z.string().regex(
    /^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$/,
    "must be one word of letters, digits and _ . / + -, because the account's shell reads it",
  ).exactOptional().describe(
    `shim on the host, a path or a name on sshd's PATH; default ${SHIM_COMMAND}`,
  ),
  shared_principal: flag(
    "another host with this setting may have the same principal: a certificate for one host then opens the other",
  ),
  groups: strings("groups for access control and group policies"),
  command_policy: commandPolicy.exactOptional().describe("rules for this host only"),
});

/** Checks a {@linkcode CallerPolicy}; unknown keys are rejected. */
export const callerPolicy: z.ZodType<CallerPolicy> = z.strictObject({
  allowed_groups: strings("groups of the hosts that the caller may see and use; empty means none"),
  require_verified_end_user: flag(
    "end user and groups come from the forwarded token, which the signer verifies",
  ),
  only_via: z.array(z.string()).min(1).exactOptional().describe(
    "CNs of the trusted_forwarders that must forward the caller's requests: direct requests get neither certificates " +
      "nor hosts, so the caller cannot bypass a control plane's guardrails; if absent, any path is allowed",
  ),
  self_approve: flag("the caller may approve its own commands (waives four-eyes)"),
});

/** The effects of a rule on the actions that it matches. */
export const CLUSTER_EFFECTS = ["allow", "deny", "require_approval"] as const;
/** One of {@linkcode CLUSTER_EFFECTS}. */
export type ClusterEffect = (typeof CLUSTER_EFFECTS)[number];

/** One rule about actions. A list that is absent, empty or has a `*` matches everything. */
export interface ClusterRule
  extends
    Optional<"verbs" | "resources" | "namespaces" | "names", readonly string[]>,
    Optional<"reveal" | "force", boolean> {
  readonly effect: ClusterEffect;
}

/** The ServiceAccount for some groups of end users. */
export interface ServiceAccountBinding {
  readonly groups?: readonly string[];
  readonly namespace: string;
  readonly service_account: string;
}

/** One cluster. */
export interface ClusterPolicy {
  readonly api_server: string;
  readonly ca_cert: string;
  readonly token_file: string;
  readonly token_ttl_seconds?: number;
  readonly approvals_required?: number;
  readonly groups?: readonly string[];
  readonly allowed_callers?: readonly string[];
  readonly sa_bindings: readonly ServiceAccountBinding[];
  readonly rules: readonly ClusterRule[];
  readonly extra_resources?: readonly ExtraResource[];
  readonly token_binding?: { readonly namespace: string };
}

/** The block `kubernetes` of a config. */
export interface KubernetesConfig {
  readonly clusters: Readonly<Record<string, ClusterPolicy>>;
}

/** The shortest lifetime of a token that API servers accept, in seconds. */
export const MIN_TOKEN_TTL_SECONDS = 600;
/** The longest lifetime of a token, in seconds. */
export const MAX_TOKEN_TTL_SECONDS = 900;

const name = (about: string) => z.string().min(1).describe(about);

const clusterRule: z.ZodType<ClusterRule> = z.strictObject({
  verbs: strings("get, list, logs, apply, delete; empty or * means all"),
  resources: strings(
    "lowercase plural names without their group, built-in or in extra_resources; empty or * means all",
  ),
  namespaces: strings(
    "namespaces; - matches objects without a namespace and lists of all namespaces; empty or * means all, including -",
  ),
  names: strings("names of objects; - matches a list; empty or * means all"),
  effect: z.enum(CLUSTER_EFFECTS).describe(
    "deny always wins; require_approval allows after an approval; an action that no rule matches is denied",
  ),
  reveal: flag("show the values of Secrets; otherwise they are masked"),
  force: flag(
    "with effect allow: an apply may take fields in force_fields from other managers without an approval; otherwise " +
      "an approver decides",
  ),
});

const saBinding: z.ZodType<ServiceAccountBinding> = z.strictObject({
  groups: strings(
    "groups of end users; empty means every request, also one without groups",
  ),
  namespace: name("namespace of the ServiceAccount"),
  service_account: name("name of the ServiceAccount that performs the action"),
});

const extraResource: z.ZodType<ExtraResource> = z.strictObject({
  resource: name("lowercase plural name of a resource that is not built in"),
  group: text("API group; empty means the core group"),
  version: name("API version, such as v1"),
  kind: name("kind, such as Deployment"),
  namespaced: flag("objects are in namespaces"),
});

/** Checks a {@linkcode ClusterPolicy}; unknown keys are rejected. */
export const clusterPolicy: z.ZodType<ClusterPolicy> = z.strictObject({
  api_server: name("URL of the API server, https://host:port; brokers receive it"),
  ca_cert: name("PEM file with the CAs of the API server's certificate; brokers receive it"),
  token_file: name(
    "file with the token of the account that may create tokens for the ServiceAccounts of sa_bindings; read for each token",
  ),
  token_ttl_seconds: z.int().min(0).exactOptional().describe(
    `lifetime of the tokens, ${MIN_TOKEN_TTL_SECONDS} to ${MAX_TOKEN_TTL_SECONDS} seconds; 0 means ${MIN_TOKEN_TTL_SECONDS}`,
  ),
  approvals_required: approvalsRequired,
  groups: strings("groups for access control"),
  allowed_callers: strings("caller CNs that may use the cluster; empty means any caller"),
  sa_bindings: z.array(saBinding).describe(
    "ServiceAccounts by group: the first entry with a group of the end user applies",
  ),
  rules: z.array(clusterRule).describe("allowed and denied actions; at least one rule must allow an action"),
  extra_resources: z.array(extraResource).exactOptional().describe(
    "resources in addition to the built-in ones",
  ),
  token_binding: z.strictObject({
    namespace: name(
      "namespace of all sa_bindings and of the Secrets that tokens are bound to; keep nothing else in it",
    ),
  }).exactOptional().describe(
    "binds tokens to one Secret for each caller and end user; a freeze deletes the Secret, and the API server then " +
      "rejects the tokens within 10 s; the account of token_file needs create and delete on secrets in this namespace",
  ),
});

/** Checks a {@linkcode KubernetesConfig}; unknown keys are rejected. */
export const kubernetesConfig: z.ZodType<KubernetesConfig> = z.strictObject({
  clusters: z.record(z.string(), clusterPolicy).default({}).describe("clusters by logical name"),
});
