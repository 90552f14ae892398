/**
 * `GET /v1/hosts`: what a broker may know of the hosts it may use.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { hostsResponse } from "@gateway/shared/wire/host";
 *
 * const hosts = hostsResponse.parse({ web01: { addr: "10.0.0.1:22", user: "deploy", host_key: "ssh-ed25519 AAAA" } });
 * assert.equal(hosts["web01"]?.user, "deploy");
 * ```
 *
 * @module
 */
import { z } from "@zod/zod";

/** One host as the broker sees it. Nothing of the policy is in it. */
export interface HostInfo {
  /** `host:port` to connect to. */
  readonly addr: string;
  /** The account on the host. */
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
  /** Groups that the host is in. */
  readonly groups?: readonly string[] | undefined;
}

/** The response of `GET /v1/hosts`: logical name to host. */
export type HostsResponse = Readonly<Record<string, HostInfo>>;

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
    groups: z.array(z.string()).optional(),
  }),
);
