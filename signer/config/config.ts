/**
 * `signer.json`: the one description of its keys. The signer loads it, `broker-ctl` edits and explains it,
 * and its permission set is derived from it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signerConfig } from "@gateway/signer/config";
 *
 * const result = signerConfig.safeParse({ host: {} });
 * assert.equal(result.success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { formatKeyPath } from "@gateway/shared/text";
import { type CaKeyConfig, caKeyConfig } from "@gateway/shared/ca";
import {
  type CallerPolicy,
  callerPolicy,
  type CommandPolicy,
  commandPolicy,
  type HostPolicy,
  hostPolicy,
  type KubernetesConfig,
  kubernetesConfig,
  MAX_TTL_SECONDS,
} from "@gateway/shared/policy";
import { type EndUserOidcConfig, endUserOidcConfig } from "@gateway/shared/oidc/model";
import {
  DATABASE_ACCESS_SHAPE,
  findStateProblems,
  isPostgresUrl,
  type StateSettings,
} from "@gateway/shared/state";
import { MAX_COMMAND_BYTES, MAX_SIGN_BODY_BYTES } from "@gateway/shared/wire";
import { type RedactConfig, redactConfig } from "@gateway/shared/redact";

/** Paths are as written; relative ones are relative to the working directory. */
export interface SignerConfig
  extends
    StateSettings,
    Readonly<Record<"listen" | "monitor_listen" | "server_cert" | "server_key" | "client_ca", string>>,
    Readonly<Record<"denied_callers" | "audit_log" | "audit_key", string>>,
    Readonly<Record<"max_ttl_seconds" | "max_command_bytes" | "sign_rate_limit_per_min", number>>,
    Readonly<Record<"auto_reload_seconds" | "max_grant_ttl_seconds", number>> {
  /** Empty if `ca_keys` has a `_default`. */
  readonly ca_key: string;
  readonly ca_keys: Readonly<Record<string, CaKeyConfig>>;
  /** Empty: there is none. */
  readonly envelope_key: string;
  readonly audit_fail_mode: "closed" | "open" | "";
  /** Empty: the host's name. */
  readonly instance: string;
  readonly policy_source: "file" | "database";
  readonly redact?: RedactConfig;
  readonly end_user_oidc?: EndUserOidcConfig;
  readonly reload_callers: readonly string[];
  /** Hosts by the CN that fetches the revocation list for them. */
  readonly krl_callers: Readonly<Record<string, readonly string[]>>;
  readonly trusted_forwarders: readonly string[];
  readonly hosts: Readonly<Record<string, HostPolicy>>;
  readonly callers: Readonly<Record<string, CallerPolicy>>;
  readonly command_policies: Readonly<Record<string, CommandPolicy>>;
  readonly group_command_policies: Readonly<Record<string, readonly string[]>>;
  readonly kubernetes?: KubernetesConfig;
}

const path = z.string().min(1);
const hosts = z.record(z.string(), hostPolicy);
const commandPolicies = z.record(z.string(), commandPolicy);

export const signerConfig: z.ZodType<SignerConfig> = z.strictObject({
  listen: z.string().min(1).default(":9443").describe("address of the mTLS listener, host:port"),
  server_cert: path.describe("PEM file, the listener's certificate"),
  server_key: path.describe("PEM file, the listener's private key"),
  client_ca: path.describe("PEM file, the CA that signs callers' certificates"),
  denied_callers: z.string().default("").describe(
    "file with the CNs, one a line, whose certificates are refused although client_ca signed them; looked at every " +
      "10 seconds; empty means none",
  ),
  ca_key: z.string().default("").describe(
    "file with the private key of the SSH CA, for labs; ca_keys._default replaces it",
  ),
  ca_keys: z.record(z.string(), caKeyConfig).default({})
    .describe(
      "keys of the SSH CA by host group, the first of a host's groups counts; _default is for the others",
    ),
  envelope_key: z.string().default("").describe(
    "file with the Ed25519 seed, exactly 32 bytes, of the key by which hosts know what comes from the signer; empty means none",
  ),
  audit_log: path.describe("the audit log; its folder must be the log's own"),
  audit_key: path.describe("file whose first 32 bytes are the Ed25519 seed that signs audit records"),
  audit_fail_mode: z.enum(["", "closed", "open"]).default("closed")
    .describe("closed: no audit record, no certificate; open: log and proceed. Read at start only"),
  max_ttl_seconds: z.int().min(0).max(MAX_TTL_SECONDS).default(0)
    .describe("cap of a certificate's life where the host sets none, in seconds; 0 means 300"),
  max_command_bytes: z.int().min(1).max(MAX_SIGN_BODY_BYTES.ssh).default(MAX_COMMAND_BYTES)
    .describe(
      "length of a command, in bytes; longer ones are rejected before they are parsed. The command of a file transfer " +
        "may have 16384 bytes",
    ),
  sign_rate_limit_per_min: z.int().min(0).default(0)
    .describe(
      "sign requests a minute for each caller, with a burst of the same number, and as many dry runs in addition; behind " +
        "a trusted forwarder for each end user of a caller, and four times as many for the caller; 0 means no limit",
    ),
  auto_reload_seconds: z.int().min(0).default(0)
    .describe(
      "how often the config file's modification time is checked, in seconds; a changed file is reloaded; 0 means never",
    ),
  monitor_listen: z.string().default("").describe("address of the monitor listener; empty means none"),
  state_db: z.string().default("").describe(
    "what keeps grants, waivers, freezes and revocations over restarts: an SQLite file for one signer; or, shared by " +
      "several, postgres://user@host:5432,host:5432/database, where the host that is no standby is used, with TLS but " +
      "for loopback and Unix sockets (%2Frun%2Fpostgresql as host) unless it ends in ?sslmode=disable; empty means " +
      "memory only",
  ),
  ...DATABASE_ACCESS_SHAPE,
  instance: z.string().regex(/^[A-Za-z0-9._-]{0,64}$/).default("")
    .describe("the name of this one of the signers that share a database; empty means the host's name"),
  policy_source: z.enum(["file", "database"]).default("file").describe(
    "where hosts are: file, in this one; database, in state_db, which has to be PostgreSQL, for all signers that share " +
      "it: broker-ctl policy import puts them there, and this file has none then. Read at start only",
  ),
  max_grant_ttl_seconds: z.int().min(0).default(0).describe(
    "the longest life of a grant, in seconds; 0 means no cap",
  ),
  redact: redactConfig.exactOptional().describe(
    "masking of secrets in audit texts; absent means the built-in rules",
  ),
  end_user_oidc: endUserOidcConfig.exactOptional()
    .describe("who vouches for end users; without it callers with require_verified_end_user get nothing"),
  reload_callers: z.array(z.string()).default([]).describe(
    "caller CNs that may use the admin routes; empty means none",
  ),
  krl_callers: z.record(z.string().min(1), z.array(z.string())).default({}).describe(
    "who fetches the key revocation list: the CN of a host's own identity, and the logical names of the hosts that it " +
      "installs the list on; these CNs may do nothing else, and need envelope_key",
  ),
  trusted_forwarders: z.array(z.string()).default([]).describe(
    "caller CNs that may act on behalf of a broker",
  ),
  hosts: hosts.default({}).describe("hosts by logical name"),
  callers: z.record(z.string(), callerPolicy).default({})
    .describe(
      "callers by CN; empty means no restriction by groups, otherwise callers that are not listed see nothing",
    ),
  command_policies: commandPolicies.default({}).describe("command policies by name"),
  group_command_policies: z.record(z.string(), z.array(z.string())).default({})
    .describe("host group to names of command policies; _default applies to every host"),
  kubernetes: kubernetesConfig.exactOptional().describe("Kubernetes clusters; absent means hosts alone"),
}).check(checkKrlCallers).check(checkState);

function checkState({ value, issues }: z.core.ParsePayload<SignerConfig>): void {
  // Without the value, because a URL may hold a password.
  const refuse = (path: readonly string[], message: string) =>
    issues.push({ code: "custom", path: [...path], message, input: undefined });
  for (const [key, message] of findStateProblems(value)) refuse([key], message);
  if (value.policy_source === "database" && !isPostgresUrl(value.state_db)) {
    refuse(["policy_source"], "needs a PostgreSQL database in state_db");
  }
}

/** The identity of a host must not be good for anything but the list, and nobody can check a list without a key. */
function checkKrlCallers({ value, issues }: z.core.ParsePayload<SignerConfig>): void {
  const { krl_callers, envelope_key, callers, reload_callers, trusted_forwarders } = value;
  const refuse = (path: readonly string[], message: string) =>
    issues.push({ code: "custom", path: [...path], message, input: value });
  const names = Object.keys(krl_callers);
  if (names.length > 0 && envelope_key === "") {
    refuse(["krl_callers"], "needs envelope_key, which signs the list");
  }
  for (const name of names) {
    if (!Object.hasOwn(callers, name) && ![...reload_callers, ...trusted_forwarders].includes(name)) continue;
    const elsewhere =
      "is in callers, reload_callers or trusted_forwarders as well: a host's identity must not be";
    refuse(["krl_callers", name], elsewhere);
  }
}

/** The problem of hosts that are in the wrong place. Neither the file nor the database overrides the other. */
export function findMisplacedHosts(
  { hosts, policy_source }: Pick<SignerConfig, "hosts" | "policy_source">,
): string | undefined {
  if (policy_source === "file" || Object.keys(hosts).length === 0) return undefined;
  return 'hosts: the file has some, and policy_source is "database": put them there with broker-ctl policy import, and ' +
    "take them out of the file";
}

/** The key paths of hosts that are sealed without a key for it: such a config is not loaded. */
export function findHostsWithoutKey(
  { hosts, envelope_key }: Pick<SignerConfig, "hosts" | "envelope_key">,
): readonly string[] {
  if (envelope_key !== "") return [];
  return Object.entries(hosts).filter(([, host]) => host.sealed_exec === true).map(([name]) =>
    `${formatKeyPath(["hosts", name, "sealed_exec"])}: needs envelope_key, the key that signs the commands`
  );
}

/** The new text is written here before it replaces the config. */
export function editPath(configPath: string): string {
  return `${configPath}.new`;
}

/** Large maps, which `parseConfigSteps()` reads in steps. */
export const LARGE_SIGNER_KEYS: Readonly<Record<string, z.ZodType>> = {
  hosts,
  command_policies: commandPolicies,
};

/** Keys of the specification that this version rejects because it does not support them. */
export const UNSUPPORTED_SIGNER_KEYS: readonly string[] = [];
