/**
 * `POST /v1/ssh_run`: one command for an agent that speaks plain HTTP with a client certificate.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { sshRunRequest } from "./ssh_run.ts";
 *
 * assert.equal(sshRunRequest.parse({ host: "web01", command: "uptime" }).pty, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** A decoded request; `ttl_seconds` 0 means the host's maximum. */
interface SshRunRequest {
  readonly host: string;
  readonly command: string;
  readonly ttl_seconds: number;
  readonly sudo: boolean;
  readonly sudo_user: string;
  readonly pty: boolean;
  /** Why, for whoever has to approve it; at most 500 characters. */
  readonly reason: string;
}

/** Decodes an {@linkcode SshRunRequest}; unknown fields are dropped. */
export const sshRunRequest: z.ZodType<SshRunRequest> = z.object({
  host: z.string(),
  command: z.string(),
  ttl_seconds: z.int().default(0),
  sudo: z.boolean().default(false),
  sudo_user: z.string().default(""),
  pty: z.boolean().default(false),
  reason: z.string().default(""),
});

/** What ran. A command that ends with another status than 0 is still a 200. */
export interface SshRunResponse {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number;
  /** The certificate's serial, unsigned, 64 bits, exact. */
  readonly serial: bigint;
  /** Warnings of an audit-mode policy; absent when there are none. */
  readonly warnings?: readonly string[] | undefined;
}
