/**
 * The policy as an operator writes it: hosts, callers and command policies. Types and schemas only; what
 * they mean is decided in the modules beside this one.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { commandPolicy } from "@gateway/shared/policy";
 *
 * const policy = commandPolicy.parse({ mode: "allowlist", allow: ["^uptime$"] });
 * assert.equal(policy.mode, "allowlist");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { hasUnseen } from "../text.ts";
import { ENVELOPE_DOMAIN, ENVELOPE_VERSIONS, type EnvelopeVersion } from "../envelope/envelope.ts";
import type { Enforcement } from "../wire/sign.ts";
import type { KubernetesConfig } from "./cluster_model.ts";

/** How the rules of a command policy are read; `""` is `off`. */
type PolicyMode = "" | "off" | "allowlist" | "denylist";

/** One command policy, inline on a host or named in the library. */
export interface CommandPolicy {
  /** Absent is `off`. */
  readonly mode?: PolicyMode;
  /** `audit` allows and warns; absent and `""` enforce. */
  readonly enforcement?: Enforcement | "";
  /** RE2 patterns; in mode `allowlist` a command must match one. */
  readonly allow?: readonly string[];
  /** RE2 patterns that refuse a command, whatever else matches. */
  readonly deny?: readonly string[];
  /** RE2 patterns of commands that need a second human, in every mode. */
  readonly require_approval?: readonly string[];
  /** Absent is true; only an explicit `false` turns parsing off. */
  readonly shell_parse?: boolean;
}

/** One host. */
export interface HostPolicy {
  /** `host:port` to connect to; empty: brokers cannot connect. */
  readonly addr: string;
  readonly user: string;
  /** The pinned host key, an authorized_keys line; empty: brokers cannot connect. */
  readonly host_key: string;
  /** Logical name of the bastion in front of the host; absent or `""`: it is reached directly. */
  readonly jump?: string;
  /** Principal of the certificate, by habit `host:<name>`. */
  readonly principal?: string;
  /** Address or CIDR that the certificate may be used from; absent or `""`: any. */
  readonly source_address?: string;
  /** Cap of a certificate's life, in seconds; absent or 0: the one of all hosts. */
  readonly max_ttl_seconds?: number;
  /** May be used as a hop to another host. */
  readonly allow_as_bastion?: boolean;
  /** CNs of the callers that may use the host; absent or empty: any. */
  readonly allowed_callers?: readonly string[];
  /** Commands may be elevated with `sudo -n`. */
  readonly allow_sudo?: boolean;
  /** Accounts that sudo may change to; root is implied by `allow_sudo`. */
  readonly allowed_sudo_users?: readonly string[];
  readonly allow_pty?: boolean;
  /** Files may be read and written. */
  readonly allow_file_transfer?: boolean;
  /** Commands without a terminal end with their connection: they watch their standard input. */
  readonly stop_on_disconnect?: boolean;
  /** The account's login shell, an absolute path; nothing is decided by it. */
  readonly login_shell?: string;
  /** `false`: on a host with command rules, sessions get a certificate only if the host is sealed; absent: `true`. */
  readonly unsealed_sessions?: boolean;
  /** Sessions run nothing but what comes in an envelope of the signer; needs a shim on the host. */
  readonly sealed_exec?: boolean;
  /** What the host's shim understands; absent: `v2`. */
  readonly envelope?: EnvelopeVersion;
  /** What v1 signs before the envelope's fields; absent: {@linkcode ENVELOPE_DOMAIN}. */
  readonly envelope_domain?: string;
  /** The shim on the host; absent: {@linkcode SHIM_COMMAND}. */
  readonly shim_command?: string;
  /** Another host may have the same principal, if that one says so too. */
  readonly shared_principal?: boolean;
  /** Groups for access control and group policies. */
  readonly groups?: readonly string[];
  readonly command_policy?: CommandPolicy;
}

/** One row of the callers table. */
export interface CallerPolicy {
  /** Groups whose hosts the caller sees and uses; absent or empty: none. */
  readonly allowed_groups?: readonly string[];
  /** The caller may approve its own commands, which waives four-eyes. */
  readonly self_approve?: boolean;
  /** End user and groups come from the token that the caller forwards, verified by the signer. */
  readonly require_verified_end_user?: boolean;
  /** CNs of the forwarders that its requests have to come through; absent: any way. */
  readonly only_via?: readonly string[];
}

/** Everything that decides whether a command may run. */
export interface PolicyConfig {
  readonly hosts: Readonly<Record<string, HostPolicy>>;
  /** Callers by CN; the row `_default` is for every other one. Empty: no restriction by groups. */
  readonly callers: Readonly<Record<string, CallerPolicy>>;
  /** The library of command policies by name. */
  readonly command_policies: Readonly<Record<string, CommandPolicy>>;
  /** Names of command policies by host group. */
  readonly group_command_policies: Readonly<Record<string, readonly string[]>>;
  /** The cap of hosts that set none, in seconds; 0 is the built-in 300. */
  readonly max_ttl_seconds: number;
  /** Absent: no clusters. */
  readonly kubernetes?: KubernetesConfig;
}

/** The longest life of any certificate, in seconds. */
export const MAX_TTL_SECONDS = 900;

/** The shim that certificates of sealed hosts are locked to, a program on sshd's default PATH. */
export const SHIM_COMMAND = "gateway-shim";

const strings = z.array(z.string());
const ttlSeconds = z.int().min(0).max(MAX_TTL_SECONDS);

/** Checks a {@linkcode CommandPolicy}; unknown keys are refused. */
export const commandPolicy: z.ZodType<CommandPolicy> = z.strictObject({
  mode: z.enum(["", "off", "allowlist", "denylist"]).exactOptional()
    .describe("off (or empty): no restriction; allowlist: a command must match; denylist: it must not"),
  enforcement: z.enum(["", "enforce", "audit"]).exactOptional()
    .describe("enforce (or empty) blocks; audit allows and warns"),
  allow: strings.exactOptional().describe("RE2 patterns; in allowlist mode a command must match one"),
  deny: strings.exactOptional().describe("RE2 patterns that refuse a command; deny always wins"),
  require_approval: strings.exactOptional().describe("RE2 patterns that need a second human, in every mode"),
  shell_parse: z.boolean().exactOptional()
    .describe("false: match the whole text; absent or true: parse as POSIX sh, each command for itself"),
});

/** Checks a {@linkcode HostPolicy}; unknown keys are refused. */
export const hostPolicy: z.ZodType<HostPolicy> = z.strictObject({
  addr: z.string().default("").describe("host:port to connect to; if empty, brokers cannot connect"),
  user: z.string().min(1).describe("the account on the host"),
  host_key: z.string().default("").describe(
    "the pinned host key, an authorized_keys line; if empty, brokers cannot connect",
  ),
  jump: z.string().exactOptional().describe("logical name of the bastion in front of the host"),
  principal: z.string().exactOptional().describe("principal of the certificate, by convention host:<name>"),
  source_address: z.string().exactOptional().describe("address or CIDR the certificate may be used from"),
  max_ttl_seconds: ttlSeconds.exactOptional().describe(
    "cap of a certificate's life, in seconds; 0 means the global one",
  ),
  allow_as_bastion: z.boolean().exactOptional().describe("may be used as a hop to another host"),
  allowed_callers: strings.exactOptional().describe(
    "caller CNs that may use the host; empty means any caller",
  ),
  allow_sudo: z.boolean().exactOptional().describe("commands may be elevated with sudo -n"),
  allowed_sudo_users: strings.exactOptional().describe(
    "accounts sudo may change to; root is implied by allow_sudo",
  ),
  allow_pty: z.boolean().exactOptional().describe("a pseudo-terminal may be requested"),
  allow_file_transfer: z.boolean().exactOptional().describe("files may be read and written"),
  stop_on_disconnect: z.boolean().exactOptional().describe(
    "one-shot commands, and those of exec sessions, end with their connection: they watch their standard input; " +
      "needs a POSIX login shell, and with sudo a sudoers rule for /bin/sh",
  ),
  login_shell: z.string().regex(/^\/[\x21-\x7e]+$/, "is an absolute path without blanks, as in /etc/passwd")
    .exactOptional().describe(
      "the account's login shell, as in /etc/passwd, for whoever reads the config: a warning tells where command " +
        "rules are not proved for it; nothing is decided by it",
    ),
  unsealed_sessions: z.boolean().exactOptional().describe(
    "false: on a host with command rules that is not sealed, the signer issues no session certificate, which could run " +
      "anything, and brokers request a certificate for each command of an exec session; if absent true, as brokers of " +
      "other builds need",
  ),
  sealed_exec: z.boolean().exactOptional().describe(
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
  shared_principal: z.boolean().exactOptional().describe(
    "the principal may be another host's too, which says the same: a certificate for one then opens the other",
  ),
  groups: strings.exactOptional().describe("groups for access control and group policies"),
  command_policy: commandPolicy.exactOptional().describe("rules for this host alone"),
});

/** Checks a {@linkcode CallerPolicy}; unknown keys are refused. */
export const callerPolicy: z.ZodType<CallerPolicy> = z.strictObject({
  allowed_groups: strings.exactOptional().describe(
    "groups whose hosts the caller sees and uses; empty means none",
  ),
  require_verified_end_user: z.boolean().exactOptional()
    .describe("end user and groups come from the token that the caller forwards, verified here"),
  only_via: strings.min(1).exactOptional().describe(
    "CNs of trusted_forwarders that the caller's requests have to come through: directly it gets neither certificates " +
      "nor hosts, so that it can't bypass a control plane's guardrails; if absent, any way is allowed",
  ),
  self_approve: z.boolean().exactOptional().describe(
    "the caller may approve its own commands (waives four-eyes)",
  ),
});
