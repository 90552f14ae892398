/**
 * The schema of `config.json`. The broker loads its config by this schema, and its permission set is derived
 * from the config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { brokerConfig } from "@gateway/broker/config";
 *
 * assert.equal(brokerConfig.safeParse({ listen: 8443 }).success, false);
 * ```
 * @module
 */
import { Buffer } from "node:buffer";
import { normalize } from "node:path";
import * as z from "@zod/zod";
import { type CaKeyConfig, caKeyConfig, planCaKeys } from "@gateway/shared/ca";
import {
  commandPolicy,
  type HostPolicy,
  kubernetesConfig,
  MAX_TTL_SECONDS,
  type PolicyConfig,
} from "@gateway/shared/policy";
import { foldIdentity, hasInvisible, quoteText } from "@gateway/shared/text";
import { type RedactConfig, redactConfig } from "@gateway/shared/redact";
import { isNetwork, NETWORK_FORMS } from "@gateway/shared/permissions";
import { type EndUserOidcConfig, endUserOidcConfig, isProviderUrl } from "@gateway/shared/oidc/model";
import { findUrlProblems, SIGNER_CLIENT_SHAPE, type SignerClientConfig } from "@gateway/shared/config";
import { HOST_IDENTITY_SUFFIX, isHostIdentity } from "@gateway/shared/wire";

/**
 * A host in the broker's own config. In remote mode only the address has an effect: it limits the connections
 * of the process.
 */
export type BrokerHost =
  & Pick<HostPolicy, "addr">
  & Partial<
    Pick<
      HostPolicy,
      | ("user" | "host_key" | "jump" | "principal" | "source_address" | "groups" | "command_policy")
      | ("allow_as_bastion" | "allow_sudo" | "allowed_sudo_users" | "allow_pty" | "allow_file_transfer")
      | ("stop_on_disconnect" | "shared_principal")
    >
  >;

export interface BrokerSocket {
  readonly path: string;
  readonly caller: string;
  readonly mode: "0600" | "0660";
}

/** The broker's config after defaults. Relative paths are relative to the working directory. */
export interface BrokerConfig
  extends
    Pick<PolicyConfig, "kubernetes" | "command_policies" | "group_command_policies" | "max_ttl_seconds">,
    Readonly<Record<"listen" | "server_cert" | "server_key" | "client_ca" | "denied_callers", string>>,
    Readonly<Record<"ca_key" | "source_address" | "audit_log" | "audit_key" | "policy_tests", string>>,
    Readonly<Record<"session_recording_dir" | "resource_url" | "monitor_listen", string>>,
    Readonly<Record<"session_recording_strict" | "approval_via_elicitation", boolean>>,
    Readonly<Record<"max_output_bytes" | "file_transfer_max_bytes" | "hosts_refresh_seconds", number>>,
    Readonly<Record<"revocation_poll_seconds" | `session_${"idle" | "max"}_seconds`, number>>,
    Readonly<Record<"networks" | "api_servers", readonly string[]>> {
  readonly run_callers?: readonly string[];
  readonly sockets: readonly BrokerSocket[];
  /** Absent in local mode, in which the broker holds the CA key and the policy itself. */
  readonly signer?: SignerClientConfig & { readonly approval_wait_seconds: number };
  readonly ca_keys: Readonly<Record<string, CaKeyConfig>>;
  readonly audit_fail_mode: "closed" | "open" | "";
  readonly oauth?: EndUserOidcConfig;
  readonly redact?: RedactConfig;
  readonly hosts: Readonly<Record<string, BrokerHost>>;
}

/** One byte less than the kept output of a command, so that a larger file is detected. */
const MAX_FILE_TRANSFER_BYTES = 10_485_759;

export const MAX_OUTPUT_BYTES = 10_485_760;

const path = z.string().min(1);

/**
 * The paths at which a socket is created. It stays in a private directory until its mode is set, and is then
 * moved to its configured path.
 */
export function privateSocketPath(path: string): { readonly directory: string; readonly socket: string } {
  return { directory: `${path}.new`, socket: `${path}.new/s` };
}

/** `sockaddr_un` holds 107 bytes and a NUL. */
const MAX_SOCKET_PATH_BYTES = 107 - privateSocketPath("").socket.length;

const brokerSocket: z.ZodType<BrokerSocket> = z.strictObject({
  path: path.refine(
    (text) => Buffer.byteLength(text) <= MAX_SOCKET_PATH_BYTES,
    `must be at most ${MAX_SOCKET_PATH_BYTES} bytes; set another path with init --socket`,
  ).describe(
    "path of the socket, in a directory for sockets only that only its owner can write to",
  ),
  caller: z.string().min(1).refine(
    (text) => !hasInvisible(text) && !isHostIdentity(text),
    `must not have control characters or end with ${HOST_IDENTITY_SUFFIX}`,
  ).describe("end user in sign requests and audit records; unique per socket"),
  mode: z.enum(["0600", "0660"]).default("0600").describe(
    "0600: only the broker's account can connect; 0660: the socket's group too, which a setgid directory sets",
  ),
});

/** 0 and negative numbers mean the default, as in the reference. */
const orDefault = (fallback: number) =>
  z.int().default(fallback).transform((value) => value > 0 ? value : fallback);

/** Whether a text is an https URL that needs no escapes in quotes (RFC 9728 section 1.2). */
function isResourceUrl(text: string): boolean {
  return isProviderUrl(text) && text.startsWith("https://") && !/[?#\s"\\]/.test(text);
}

function isServerUrl(text: string): boolean {
  const url = URL.parse(text);
  return url?.protocol === "https:" && url.hostname !== "";
}

const text = z.string().default("");
const anyText = z.string().exactOptional();
const anyFlag = z.boolean().exactOptional();
const names = z.array(z.string());

const brokerHost: z.ZodType<BrokerHost> = z.strictObject({
  addr: text.describe("host:port; if empty, the broker cannot connect"),
  user: anyText.describe("account on the host; required in local mode"),
  host_key: anyText.describe(
    "pinned host key, an authorized_keys line; if empty, the broker cannot connect",
  ),
  jump: anyText.describe("name of the bastion in front of the host"),
  principal: anyText.describe("local mode: principal of the certificate, by convention host:<name>"),
  source_address: anyText.describe(
    "local mode: client address or CIDR of certificates; overrides the global one",
  ),
  allow_as_bastion: anyFlag.describe(
    "local mode: the host may be a bastion; implied if the jump of another host names it",
  ),
  allow_sudo: anyFlag.describe("local mode: commands may be elevated with sudo -n"),
  allowed_sudo_users: names.exactOptional().describe(
    "local mode: target accounts of sudo; allow_sudo implies root",
  ),
  allow_pty: anyFlag.describe("local mode: a pseudo-terminal may be requested"),
  allow_file_transfer: anyFlag.describe("local mode: files may be read and written"),
  stop_on_disconnect: anyFlag.describe(
    "local mode: one-shot and exec commands end with their connection; see hosts.<name>.stop_on_disconnect of signer.json",
  ),
  shared_principal: anyFlag.describe(
    "local mode: hosts that all set this may share a principal; a certificate for one opens the others",
  ),
  groups: names.exactOptional().describe("groups for access control, group policies and CA keys"),
  command_policy: commandPolicy.exactOptional().describe("local mode: rules for this host"),
});

export const brokerConfig: z.ZodType<BrokerConfig> = z.strictObject({
  listen: z.string().min(1).default(":8443").describe("address of the HTTP frontends, host:port"),
  server_cert: text.describe("PEM file with the certificate of the HTTP frontends"),
  server_key: text.describe("PEM file with the private key of the HTTP frontends"),
  client_ca: text.describe("PEM file with the CA of agents' certificates, for serve-http"),
  denied_callers: text.describe(
    "file with CNs, one per line, whose certificates are rejected; read every 10 seconds; empty means none",
  ),
  run_callers: names.exactOptional().describe("CNs that may use POST /v1/ssh_run; absent: every CN"),
  sockets: z.array(brokerSocket).default([]).describe(
    "Unix sockets on which serve-http and serve-mcp-http also serve MCP, one per agent or user; agents connect with " +
      "gateway connect and need no key",
  ),
  signer: z.strictObject({
    ...SIGNER_CLIENT_SHAPE,
    approval_wait_seconds: z.int().min(0).default(0).describe(
      "maximum wait for a human's approval, in seconds; 0 means no wait",
    ),
  }).exactOptional().describe(
    "signer that issues certificates (remote mode); absent: local mode, in which the broker has the CA key",
  ),
  ca_key: text.describe(
    "local mode: file with the private SSH CA key, for labs; ca_keys._default replaces it",
  ),
  ca_keys: z.record(z.string(), caKeyConfig).default({}).describe(
    "local mode: SSH CA keys by host group; a host uses its first group with a key, else _default",
  ),
  source_address: text.describe(
    "local mode: client address or CIDR of certificates, unless the host has its own",
  ),
  audit_log: path.describe(
    "audit log, in a separate directory; further serve-mcp processes write audit-2.log, … in the same directory",
  ),
  audit_key: path.describe("file whose first 32 bytes are the Ed25519 seed that signs audit records"),
  audit_fail_mode: z.enum(["", "closed", "open"]).default("closed")
    .describe("closed: no audit record, no output; open: log and proceed"),
  max_ttl_seconds: orDefault(300).describe(
    "maximum requested certificate lifetime in seconds; in local mode at most 900",
  ),
  max_output_bytes: orDefault(409_600).refine(
    (bytes) => bytes <= MAX_OUTPUT_BYTES,
    `must be at most ${MAX_OUTPUT_BYTES}`,
  ).describe(
    "MCP only: maximum bytes of stdout and of stderr in a result; above the default, results exceed 1 MiB of JSON, " +
      "which some clients reject",
  ),
  file_transfer_max_bytes: orDefault(524_288).refine(
    (bytes) => bytes <= MAX_FILE_TRANSFER_BYTES,
    `must be at most ${MAX_FILE_TRANSFER_BYTES}, the limit of a command's output`,
  ).describe("maximum size of a file for ssh_put_file and ssh_get_file, in bytes"),
  hosts_refresh_seconds: orDefault(300).describe("interval of host list refreshes, in seconds"),
  revocation_poll_seconds: orDefault(10).describe("remote mode: interval of freeze polls, in seconds"),
  session_idle_seconds: orDefault(300).describe("idle time until a session is closed, in seconds"),
  session_max_seconds: orDefault(1800).describe(
    "maximum age of a session, in seconds; a running command can finish",
  ),
  session_recording_dir: text.describe(
    "existing directory for recordings of shell and pty sessions (asciicast v2); empty means none",
  ),
  session_recording_strict: z.boolean().default(false).describe(
    "true: a command that cannot be recorded is not run; false: failures are counted and leave gaps",
  ),
  approval_via_elicitation: z.boolean().default(false).describe(
    "MCP over stdio only: without a control plane, ask the human at the MCP client for approvals; the signer must " +
      "list this broker with self_approve (not in local mode)",
  ),
  oauth: endUserOidcConfig.exactOptional().describe(
    "MCP over HTTP only: OpenID provider of end users' tokens",
  ),
  resource_url: text.refine(
    (text) => text === "" || isResourceUrl(text),
    "must be an https URL without query and fragment",
  ).describe("MCP over HTTP only: public URL of the frontend"),
  monitor_listen: text.describe("address of the monitor listener; empty means none"),
  redact: redactConfig.exactOptional().describe(
    "rules that mask secrets in audit texts; absent means the built-in rules",
  ),
  hosts: z.record(z.string(), brokerHost).default({}).describe(
    "local mode: hosts by logical name; ignored in remote mode",
  ),
  networks: z.array(z.string().refine(isNetwork, `must be ${NETWORK_FORMS}`)).default([]).describe(
    `remote mode: hosts that the process may connect to: ${NETWORK_FORMS}; if networks and api_servers are empty, any`,
  ),
  api_servers: z.array(z.string().refine(isServerUrl, "must be https://host:port")).default([]).describe(
    "remote mode: API servers that the process may connect to, https://host:port; if networks and api_servers are " +
      "empty, any",
  ),
  kubernetes: kubernetesConfig.exactOptional().describe("local mode: clusters and their rules, for labs"),
  command_policies: z.record(z.string(), commandPolicy).default({}).describe(
    "local mode: command policies by name",
  ),
  group_command_policies: z.record(z.string(), names).default({}).describe(
    "local mode: host group to names of command policies; _default applies to every host",
  ),
  policy_tests: text.describe(
    "local mode: file with the expected decisions of broker-ctl policy test; a config whose tests fail is not loaded; " +
      "empty means none",
  ),
}).superRefine((config, context) => {
  const sockets = {
    path: config.sockets.map(({ path }) => normalize(path)),
    caller: config.sockets.map(({ caller }) => foldIdentity(caller)),
  };
  for (const [key, values] of Object.entries(sockets)) {
    if (new Set(values).size === values.length) continue;
    context.addIssue({ code: "custom", path: ["sockets"], message: `two sockets have the same ${key}` });
  }
  for (const [key, message] of findModeProblems(config)) {
    context.addIssue({ code: "custom", path: key === "" ? [] : key.split("."), message });
  }
});

/** Keys of clusters that local mode does not enforce, and what it lacks. */
const NEEDS_SIGNER = { token_binding: "freezes", approvals_required: "approvers" };

/**
 * Finds the problems that depend on the mode (local or remote), each with its config key. An empty key means
 * the whole config.
 */
function findModeProblems(config: BrokerConfig): readonly (readonly [string, string])[] {
  const { signer, networks, api_servers, max_ttl_seconds: seconds } = config;
  if (signer !== undefined) {
    return findUrlProblems(signer)
      .map(([key, message]) => [key === "" ? "signer" : `signer.${key}`, message]);
  }
  const problems: [string, string][] = [];
  if (planCaKeys(config) === undefined) {
    problems.push(["", "needs signer (remote mode), or ca_key or ca_keys._default (local mode)"]);
  }
  const unused = "has no effect in local mode (no signer)";
  if (networks.length > 0) {
    problems.push(["networks", `${unused}: the process may connect only to its hosts`]);
  }
  if (api_servers.length > 0) {
    problems.push(["api_servers", `${unused}: name the clusters in kubernetes`]);
  }
  for (const [name, cluster] of Object.entries(config.kubernetes?.clusters ?? {})) {
    for (const [key, lack] of Object.entries(NEEDS_SIGNER)) {
      if (!(key in cluster)) continue;
      problems.push([
        "kubernetes",
        `cluster ${quoteText(name)} has ${key}, which needs a signer: local mode has no ${lack}`,
      ]);
    }
  }
  if (seconds > MAX_TTL_SECONDS) {
    const problem = `${seconds} exceeds the ${MAX_TTL_SECONDS}s (15m) certificate cap (local mode)`;
    problems.push(["max_ttl_seconds", problem]);
  }
  return problems;
}

/** Keys of the specification that this version does not implement, and rejects instead of ignoring. */
export const UNSUPPORTED_BROKER_KEYS: readonly string[] = ["hosts.*.sealed_exec"];

export type LocalPolicyConfig =
  & Omit<PolicyConfig, "hosts" | "callers">
  & Pick<BrokerConfig, "hosts" | "source_address">;

/** The policy of a broker in local mode in the signer's form. There is one caller, so there is no callers table. */
export function localPolicy(
  { hosts, source_address: everywhere, ...policy }: LocalPolicyConfig,
): Omit<PolicyConfig, "approvals"> {
  const { command_policies, group_command_policies, max_ttl_seconds, kubernetes, policy_tests = "" } = policy;
  const bastions = new Set(Object.values(hosts).map(({ jump = "" }) => jump));
  const toHostPolicy = (name: string, host: BrokerHost): HostPolicy => ({
    ...host,
    user: host.user ?? "",
    host_key: host.host_key ?? "",
    source_address: host.source_address || everywhere,
    allow_as_bastion: host.allow_as_bastion || bastions.has(name),
  });
  return {
    hosts: Object.fromEntries(Object.entries(hosts).map(([name, host]) => [name, toHostPolicy(name, host)])),
    callers: {},
    ...{ command_policies, group_command_policies, max_ttl_seconds, policy_tests },
    ...(kubernetes !== undefined && { kubernetes }),
  };
}
