// The policy as an operator writes it: hosts, callers, command policies and clusters. The schemas describe
// each key.
import * as z from "@zod/zod";
import { hasUnseen } from "../text.ts";
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
  readonly envelope?: EnvelopeVersion;
  readonly command_policy?: CommandPolicy;
}

/** One row of the callers table. */
export interface CallerPolicy
  extends
    Optional<"allowed_groups" | "only_via", readonly string[]>,
    Optional<"self_approve" | "require_verified_end_user", boolean> {}

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
}

/** The longest lifetime of a certificate, in seconds. */
export const MAX_TTL_SECONDS = 900;

/** The shim of sealed hosts, a program on sshd's default PATH. */
export const SHIM_COMMAND = "gateway-shim";

const strings = (about: string) => z.array(z.string()).exactOptional().describe(about);
const flag = (about: string) => z.boolean().exactOptional().describe(about);
const text = (about: string) => z.string().exactOptional().describe(about);

/** Checks a {@linkcode CommandPolicy}; unknown keys are rejected. */
export const commandPolicy: z.ZodType<CommandPolicy> = z.strictObject({
  mode: z.enum(["", "off", "allowlist", "denylist"]).exactOptional()
    .describe("off (or empty): no restriction; allowlist: a command must match; denylist: it must not"),
  enforcement: z.enum(["", "enforce", "audit"]).exactOptional()
    .describe("enforce (or empty) blocks; audit allows and warns"),
  allow: strings("RE2 patterns; in allowlist mode a command must match one"),
  deny: strings("RE2 patterns that refuse a command; deny always wins"),
  require_approval: strings("RE2 patterns that need a second human, in every mode"),
  shell_parse: flag(
    "false: match the whole text; absent or true: parse as POSIX sh, each command for itself",
  ),
});

/** Checks a {@linkcode HostPolicy}; unknown keys are rejected. */
export const hostPolicy: z.ZodType<HostPolicy> = z.strictObject({
  addr: z.string().default("").describe("host:port to connect to; if empty, brokers cannot connect"),
  user: z.string().min(1).describe("the account on the host"),
  host_key: z.string().default("").describe(
    "the pinned host key, an authorized_keys line; if empty, brokers cannot connect",
  ),
  jump: text("logical name of the bastion in front of the host"),
  principal: text("principal of the certificate, by convention host:<name>"),
  source_address: text("address or CIDR the certificate may be used from"),
  max_ttl_seconds: z.int().min(0).max(MAX_TTL_SECONDS).exactOptional().describe(
    "cap of a certificate's life, in seconds; 0 means the global one",
  ),
  allow_as_bastion: flag("may be used as a hop to another host"),
  allowed_callers: strings("caller CNs that may use the host; empty means any caller"),
  allow_sudo: flag("commands may be elevated with sudo -n"),
  allowed_sudo_users: strings("accounts sudo may change to; root is implied by allow_sudo"),
  allow_pty: flag("a pseudo-terminal may be requested"),
  allow_file_transfer: flag("files may be read and written"),
  stop_on_disconnect: flag(
    "one-shot commands, and those of exec sessions, end with their connection: they watch their standard input; " +
      "needs a POSIX login shell, and with sudo a sudoers rule for /bin/sh",
  ),
  login_shell: z.string().regex(/^\/[\x21-\x7e]+$/, "is an absolute path without blanks, as in /etc/passwd")
    .exactOptional().describe(
      "the account's login shell, as in /etc/passwd, for whoever reads the config: a warning tells where command " +
        "rules are not proved for it; nothing is decided by it",
    ),
  unsealed_sessions: flag(
    "false: on a host with command rules that is not sealed, the signer issues no session certificate, which could run " +
      "anything, and brokers request a certificate for each command of an exec session; if absent true, as brokers of " +
      "other builds need",
  ),
  sealed_exec: flag(
    "sessions run nothing but commands that the signer has put into an envelope, one by one; needs envelope_key and " +
      "a shim on the host",
  ),
  envelope: z.enum(ENVELOPE_VERSIONS).exactOptional().describe(
    "format that the host's shim understands: v3 also binds what a command reads (broker-ctl host seal writes it); v2 " +
      "(if absent) and v1, which is JSON, leave the standard input to the broker",
  ),
  envelope_domain: z.string().min(1).refine((text) => !hasUnseen(text), "must not have control characters")
    .exactOptional()
    .describe(`with envelope v1: the domain that another build's shim expects; if absent ${ENVELOPE_DOMAIN}`),
  shim_command: z.string().regex(
    /^[A-Za-z0-9_./][A-Za-z0-9_./+-]*$/,
    "is one word of letters, digits and _ . / + -, for the account's shell reads it",
  ).exactOptional().describe(
    `the shim on the host, a name on sshd's PATH or a path; if absent ${SHIM_COMMAND}`,
  ),
  shared_principal: flag(
    "the principal may be another host's too, which says the same: a certificate for one then opens the other",
  ),
  groups: strings("groups for access control and group policies"),
  command_policy: commandPolicy.exactOptional().describe("rules for this host alone"),
});

/** Checks a {@linkcode CallerPolicy}; unknown keys are rejected. */
export const callerPolicy: z.ZodType<CallerPolicy> = z.strictObject({
  allowed_groups: strings("groups whose hosts the caller sees and uses; empty means none"),
  require_verified_end_user: flag(
    "end user and groups come from the token that the caller forwards, verified here",
  ),
  only_via: z.array(z.string()).min(1).exactOptional().describe(
    "CNs of trusted_forwarders that the caller's requests have to come through: directly it gets neither certificates " +
      "nor hosts, so that it can't bypass a control plane's guardrails; if absent, any way is allowed",
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
  verbs: strings("of get, list, logs, apply, delete; empty, or with a *, means all"),
  resources: strings(
    "lower-case plural names without their group, built-in or of extra_resources; empty, or with a *, means all",
  ),
  namespaces: strings(
    "namespaces; - stands for objects without one and for a list of all namespaces; empty, or with a *, means all, " +
      "- included",
  ),
  names: strings("names of objects; - stands for a list; empty, or with a *, means all"),
  effect: z.enum(CLUSTER_EFFECTS).describe(
    "deny beats the others; require_approval allows once a human has approved; what no rule matches is denied",
  ),
  reveal: flag("values of Secrets are shown; otherwise they are masked"),
  force: flag(
    "with effect allow: an apply may take the fields named in force_fields over from other managers without approval; " +
      "otherwise an approver decides",
  ),
});

const saBinding: z.ZodType<ServiceAccountBinding> = z.strictObject({
  groups: strings(
    "groups of end users that it is for; empty means everybody, a request without an end user's groups included",
  ),
  namespace: name("namespace of the ServiceAccount"),
  service_account: name("name of the ServiceAccount whose rights the action is done with"),
});

const extraResource: z.ZodType<ExtraResource> = z.strictObject({
  resource: name("lower-case plural name, not that of a built-in one"),
  group: text("API group; empty is the core group"),
  version: name("API version, as v1"),
  kind: name("kind, as Deployment"),
  namespaced: flag("the objects are in namespaces"),
});

/** Checks a {@linkcode ClusterPolicy}; unknown keys are rejected. */
export const clusterPolicy: z.ZodType<ClusterPolicy> = z.strictObject({
  api_server: name("URL of the API server, https://host:port; told to brokers"),
  ca_cert: name("PEM file with the CAs that the API server's certificate comes from; told to brokers"),
  token_file: name(
    "file with the token of the account that may create tokens for the ServiceAccounts of sa_bindings; read for each",
  ),
  token_ttl_seconds: z.int().min(0).exactOptional().describe(
    `life of the tokens, ${MIN_TOKEN_TTL_SECONDS} to ${MAX_TOKEN_TTL_SECONDS} seconds; 0 means ${MIN_TOKEN_TTL_SECONDS}`,
  ),
  groups: strings("groups for access control"),
  allowed_callers: strings("caller CNs that may use the cluster; empty means any caller"),
  sa_bindings: z.array(saBinding).describe(
    "which ServiceAccount an action is done as: the first entry that has a group of the end user",
  ),
  rules: z.array(clusterRule).describe("what may be done; at least one rule has to allow something"),
  extra_resources: z.array(extraResource).exactOptional().describe("resources beside the built-in ones"),
  token_binding: z.strictObject({
    namespace: name(
      "the namespace of all sa_bindings, where the Secrets are kept that tokens are bound to; keep nothing else there",
    ),
  }).exactOptional().describe(
    "ties tokens to a Secret for each caller and end user, which a freeze deletes: the API server then refuses the " +
      "tokens within 10 s; the account of token_file needs create and delete on secrets there",
  ),
});

/** Checks a {@linkcode KubernetesConfig}; unknown keys are rejected. */
export const kubernetesConfig: z.ZodType<KubernetesConfig> = z.strictObject({
  clusters: z.record(z.string(), clusterPolicy).default({}).describe("clusters by logical name"),
});
