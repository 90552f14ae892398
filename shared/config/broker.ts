/**
 * `config.json`: the one description of the broker's keys. The broker loads it, and its permission set is
 * derived from it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { brokerConfig } from "@gateway/shared/config/broker";
 *
 * assert.equal(brokerConfig.safeParse({ listen: 8443 }).success, false);
 * ```
 *
 * @module
 */
import { z } from "@zod/zod";
import { type RedactConfig, redactConfig } from "../redact/model.ts";
import { SIGNER_CLIENT_SHAPE, type SignerClientConfig } from "./signer_client.ts";

/** How the broker reaches the signer, or a control plane in front of it. */
export interface BrokerSignerConfig extends SignerClientConfig {
  /** How long a command waits for a human's approval, in seconds; 0: not at all. */
  readonly approval_wait_seconds: number;
}

/** A host in the broker's own config; in remote mode its address only bounds what the process may connect to. */
export interface BrokerHost {
  readonly addr: string;
}

/** The broker's config after defaults. Paths are as written; relative ones are relative to the working directory. */
export interface BrokerConfig {
  readonly listen: string;
  readonly server_cert: string;
  readonly server_key: string;
  readonly client_ca: string;
  readonly signer: BrokerSignerConfig;
  readonly audit_log: string;
  readonly audit_key: string;
  readonly audit_fail_mode: "closed" | "open" | "";
  readonly max_ttl_seconds: number;
  readonly hosts_refresh_seconds: number;
  readonly monitor_listen: string;
  readonly redact?: RedactConfig;
  readonly hosts: Readonly<Record<string, BrokerHost>>;
}

const path = z.string().min(1);

/** Zero and negative numbers mean the default, as in the reference. */
const orDefault = (fallback: number) =>
  z.int().default(fallback).transform((value) => value > 0 ? value : fallback);

/** Checks a {@linkcode BrokerConfig}; unknown keys are refused. */
export const brokerConfig: z.ZodType<BrokerConfig> = z.strictObject({
  listen: z.string().min(1).default(":8443").describe("address of the HTTP frontend, host:port"),
  server_cert: z.string().default("").describe(
    "PEM file, the HTTP frontend's certificate; unused over stdio",
  ),
  server_key: z.string().default("").describe("PEM file, the HTTP frontend's private key; unused over stdio"),
  client_ca: z.string().default("").describe(
    "PEM file, the CA that signs agents' certificates; unused over stdio",
  ),
  signer: z.strictObject({
    ...SIGNER_CLIENT_SHAPE,
    approval_wait_seconds: z.int().min(0).default(0).describe(
      "how long a command waits for a human's approval, in seconds; 0 is not at all",
    ),
  }).describe("the signer that issues certificates"),
  audit_log: path.describe("the audit log; its folder must be the log's own"),
  audit_key: path.describe("file whose first 32 bytes are the Ed25519 seed that signs audit records"),
  audit_fail_mode: z.enum(["", "closed", "open"]).default("closed")
    .describe("closed: no audit record, no output; open: log and proceed"),
  max_ttl_seconds: orDefault(300).describe("the longest certificate life to ask for, in seconds"),
  hosts_refresh_seconds: orDefault(300).describe("pause between refreshes of the host list, in seconds"),
  monitor_listen: z.string().default("").describe("address of the monitor listener; empty is none"),
  redact: redactConfig.exactOptional().describe(
    "masking of secrets in audit texts; absent is the built-in rules",
  ),
  hosts: z.record(z.string(), z.strictObject({ addr: z.string().min(1).describe("host:port") })).default({})
    .describe(
      "when given, the only addresses the process may connect to; the host list itself is the signer's",
    ),
});

/** Keys of the specification that this version does not act on yet, and refuses rather than ignore. */
export const UNSUPPORTED_BROKER_KEYS: readonly string[] = [
  "approval_via_elicitation",
  "ca_key",
  "ca_keys",
  "command_policies",
  "file_transfer_max_bytes",
  "group_command_policies",
  "oauth",
  "resource_url",
  "revocation_poll_seconds",
  "session_idle_seconds",
  "session_max_seconds",
  "session_recording_dir",
  "session_recording_strict",
  "source_address",
];
