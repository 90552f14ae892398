// `GET /v1/hosts` and `GET /v1/clusters`: the hosts and clusters that a caller may use.
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { each, type Enforcement, ENFORCEMENTS, optional, SESSION_MODES, type SessionMode } from "./sign.ts";

/**
 * The rules of a host without temporary grants. Patterns that deny are not in it. A list that is too long is
 * truncated, with the number of omitted patterns.
 */
export interface HostRules {
  /** `allowlist`: only listed commands. `denylist`: all but denied commands. `any`: no rules. */
  readonly commands: "any" | "allowlist" | "denylist";
  /** `enforce` if rules block, `audit` if they only warn. */
  readonly enforcement: Enforcement;
  /** Each command of a line is judged by itself. */
  readonly shell_parse: boolean;
  /** RE2 patterns of an allowlist. */
  readonly allow?: readonly string[] | undefined;
  /** The number of patterns that are left out of `allow`. */
  readonly allow_omitted?: number | undefined;
  /** Some commands are denied even if they match `allow`. */
  readonly some_denied?: boolean | undefined;
  /** RE2 patterns of commands that a human has to approve. */
  readonly require_approval?: readonly string[] | undefined;
  /** The number of patterns that are left out of `require_approval`. */
  readonly require_approval_omitted?: number | undefined;
  /** The accounts for sudo. Absent: no sudo. */
  readonly sudo_users?: readonly string[] | undefined;
  /** The modes of sessions that the host accepts. */
  readonly session_modes: readonly SessionMode[];
  /** Whether the host accepts file transfers. */
  readonly file_transfer: boolean;
  /** The longest lifetime of a certificate. */
  readonly max_ttl_seconds: number;
}

/** A host as a broker sees it. */
export interface HostInfo {
  /** `host:port`. */
  readonly addr: string;
  /** The account on the host. */
  readonly user: string;
  /** The pinned host key, an authorized_keys line. */
  readonly host_key: string;
  /** The bastion's logical name; absent for a direct connection. */
  readonly jump?: string | undefined;
  /** The host accepts sudo. */
  readonly allow_sudo?: boolean | undefined;
  /** The host accepts terminals. */
  readonly allow_pty?: boolean | undefined;
  /** The host accepts file transfers. */
  readonly allow_file_transfer?: boolean | undefined;
  /** One-shot commands without a terminal end with their standard input, so the broker keeps it open. */
  readonly stop_on_disconnect?: boolean | undefined;
  /** `false`: no session certificates, so each command of an exec session needs a certificate. */
  readonly unsealed_sessions?: boolean | undefined;
  /** The groups of the host, by which brokers filter for end users. */
  readonly groups?: readonly string[] | undefined;
  /** The rules of the host. Only with `?policy=true&host=…`. */
  readonly policy?: HostRules | undefined;
}

/** Hosts by logical name. */
export type HostsResponse = Readonly<Record<string, HostInfo>>;

/** Decodes a {@linkcode HostsResponse}. */
export const hostsResponse: z.ZodType<HostsResponse> = z.record(
  z.string(),
  z.object({
    ...each(z.string(), "addr", "user", "host_key"),
    jump: optional.text,
    ...each(optional.flag, "allow_sudo", "allow_pty", "allow_file_transfer"),
    ...each(optional.flag, "stop_on_disconnect", "unsealed_sessions"),
    groups: optional.texts,
    policy: z.object({
      commands: z.enum(["any", "allowlist", "denylist"]),
      enforcement: z.enum(ENFORCEMENTS),
      ...each(z.boolean(), "shell_parse", "file_transfer"),
      ...each(optional.texts, "allow", "require_approval", "sudo_users"),
      ...each(optional.count, "allow_omitted", "require_approval_omitted"),
      some_denied: optional.flag,
      session_modes: z.array(z.enum(SESSION_MODES)),
      max_ttl_seconds: z.int(),
    }).optional(),
  }),
);

/** The number of hosts that one request for rules may name. */
export const MAX_RULES_HOSTS = 20;

/** The path for the rules of these hosts. */
export function rulesPath(hosts: readonly string[]): string {
  return `/v1/hosts?${new URLSearchParams([["policy", "true"], ...hosts.map((host) => ["host", host])])}`;
}

/**
 * The hosts whose rules a request is for; `undefined` for the list of hosts.
 *
 * @throws {AppError} `invalid_request` for no or too many hosts
 */
export function readRulesHosts({ url }: Request): readonly string[] | undefined {
  const query = new URL(url).searchParams;
  if (query.get("policy") !== "true") return undefined;
  const hosts = query.getAll("host");
  if (hosts.length >= 1 && hosts.length <= MAX_RULES_HOSTS) return hosts;
  throw new AppError("invalid_request", `policy=true needs host=…, 1 to ${MAX_RULES_HOSTS} times`);
}

/** A kind of object in addition to the built-in kinds. */
export interface ExtraResource {
  /** Lower-case plural name. */
  readonly resource: string;
  /** The API group. Absent or `""`: the core group. */
  readonly group?: string | undefined;
  /** The version of the group, such as `v1`. */
  readonly version: string;
  /** The kind, such as `Widget`. */
  readonly kind: string;
  /** Whether its objects are in namespaces. */
  readonly namespaced?: boolean | undefined;
}

/** A cluster as a broker sees it. */
export interface ClusterInfo {
  /** `https://host:port`, without a slash at its end. */
  readonly api_server: string;
  /** The CA of the API server. */
  readonly ca_cert_pem: string;
  /** The groups of the cluster, by which brokers filter for end users. */
  readonly groups?: readonly string[] | undefined;
  /** Kinds of objects in addition to the built-in kinds. */
  readonly extra_resources?: readonly ExtraResource[] | undefined;
  /** The rules in words; only with `?policy=true`. */
  readonly policy?: readonly string[] | undefined;
}

/** Whether a request for clusters also wants their rules. */
export function wantsClusterRules(request: Request): boolean {
  return new URL(request.url).searchParams.get("policy") === "true";
}

/** Clusters by logical name. */
export type ClustersResponse = Readonly<Record<string, ClusterInfo>>;

/** Decodes a {@linkcode ClustersResponse}. */
export const clustersResponse: z.ZodType<ClustersResponse> = z.record(
  z.string(),
  z.object({
    ...each(z.string(), "api_server", "ca_cert_pem"),
    ...each(optional.texts, "groups", "policy"),
    extra_resources: z.array(z.object({
      ...each(z.string(), "resource", "version", "kind"),
      group: optional.text,
      namespaced: optional.flag,
    })).optional(),
  }),
);
