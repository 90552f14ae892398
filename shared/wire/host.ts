/**
 * `GET /v1/hosts`: what a broker may know of the hosts it may use.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { hostsResponse } from "@gateway/shared/wire";
 *
 * const hosts = hostsResponse.parse({ web01: { addr: "10.0.0.1:22", user: "deploy", host_key: "ssh-ed25519 AAAA" } });
 * assert.equal(hosts["web01"]?.user, "deploy");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { type Enforcement, ENFORCEMENTS, SESSION_MODES, type SessionMode } from "./sign.ts";
import { AppError } from "../errors.ts";

/**
 * What a caller may do on a host, as far as the policy's own rules say; temporary grants come on top. Patterns that
 * deny are not in it. A list that is too long is cut off, and says how many are left out.
 */
export interface HostRules {
  /** `any`: no rules; `allowlist`: what matches `allow`; `denylist`: what is not denied. */
  readonly commands: "any" | "allowlist" | "denylist";
  /** `audit`: what the rules refuse runs with a warning. */
  readonly enforcement: Enforcement;
  /** Each command of a line is judged for itself, and what a parser can't take apart is refused. */
  readonly shell_parse: boolean;
  /** RE2 patterns; of an allowlist only. */
  readonly allow?: readonly string[] | undefined;
  /** How many of them are left out. */
  readonly allow_omitted?: number | undefined;
  /** Some commands are denied, also where they match `allow`. */
  readonly some_denied?: boolean | undefined;
  /** RE2 patterns of commands that need a human's approval. */
  readonly require_approval?: readonly string[] | undefined;
  /** How many of them are left out. */
  readonly require_approval_omitted?: number | undefined;
  /** The accounts that sudo may change to; absent: no sudo. */
  readonly sudo_users?: readonly string[] | undefined;
  /** The modes in which a session may be opened. */
  readonly session_modes: readonly SessionMode[];
  /** Files may be moved as far as patterns allow the commands behind that. */
  readonly file_transfer: boolean;
  /** The longest life of a certificate. */
  readonly max_ttl_seconds: number;
}

/** One host as the broker sees it. Nothing of the policy is in it, unless it has been asked for. */
export interface HostInfo {
  readonly addr: string;
  readonly user: string;
  /** The pinned host key, an authorized_keys line. */
  readonly host_key: string;
  /** The bastion's logical name; absent when the host is reached directly. */
  readonly jump?: string | undefined;
  /** Whether commands may ask for sudo. */
  readonly allow_sudo?: boolean | undefined;
  /** Whether a terminal may be asked for. */
  readonly allow_pty?: boolean | undefined;
  /** Whether files may be read and written. */
  readonly allow_file_transfer?: boolean | undefined;
  /** One-shot commands without a terminal end when their standard input does: it has to stay open till then. */
  readonly stop_on_disconnect?: boolean | undefined;
  /** `false`: no session certificate is issued, each command of an exec session needs a certificate; else absent. */
  readonly unsealed_sessions?: boolean | undefined;
  /** Groups that the host is in. */
  readonly groups?: readonly string[] | undefined;
  /** Only where asked for with `?policy=true&host=…`. */
  readonly policy?: HostRules | undefined;
}

/** The response of `GET /v1/hosts`: logical name to host. */
export type HostsResponse = Readonly<Record<string, HostInfo>>;

const hostRules: z.ZodType<HostRules> = z.object({
  commands: z.enum(["any", "allowlist", "denylist"]),
  enforcement: z.enum(ENFORCEMENTS),
  shell_parse: z.boolean(),
  allow: z.array(z.string()).optional(),
  allow_omitted: z.int().optional(),
  some_denied: z.boolean().optional(),
  require_approval: z.array(z.string()).optional(),
  require_approval_omitted: z.int().optional(),
  sudo_users: z.array(z.string()).optional(),
  session_modes: z.array(z.enum(SESSION_MODES)),
  file_transfer: z.boolean(),
  max_ttl_seconds: z.int(),
});

/** Decodes a {@linkcode HostsResponse}. */
export const hostsResponse: z.ZodType<HostsResponse> = z.record(
  z.string(),
  z.object({
    addr: z.string(),
    user: z.string(),
    host_key: z.string(),
    jump: z.string().optional(),
    allow_sudo: z.boolean().optional(),
    allow_pty: z.boolean().optional(),
    allow_file_transfer: z.boolean().optional(),
    stop_on_disconnect: z.boolean().optional(),
    unsealed_sessions: z.boolean().optional(),
    groups: z.array(z.string()).optional(),
    policy: hostRules.optional(),
  }),
);

/** How many hosts may be named in one request for their rules. */
export const MAX_RULES_HOSTS = 20;

/** The path that asks for the rules of these hosts. */
export function rulesPath(hosts: readonly string[]): string {
  return `/v1/hosts?${new URLSearchParams([["policy", "true"], ...hosts.map((host) => ["host", host])])}`;
}

/**
 * The hosts whose rules a request asks for; `undefined` when it asks for the list of hosts as such.
 *
 * @throws {AppError} `invalid_request` when it names none, or too many
 */
export function readRulesHosts({ url }: Request): readonly string[] | undefined {
  const query = new URL(url).searchParams;
  if (query.get("policy") !== "true") return undefined;
  const hosts = query.getAll("host");
  if (hosts.length >= 1 && hosts.length <= MAX_RULES_HOSTS) return hosts;
  throw new AppError("invalid_request", `policy=true needs host=…, 1 to ${MAX_RULES_HOSTS} times`);
}
