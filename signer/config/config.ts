/**
 * The schema of `signer.json`. The signer loads its config by this schema, `broker-ctl` edits and explains
 * the config, and the signer's permission set is derived from it.
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
import { type ApprovalsConfig, approvalsConfig } from "@gateway/shared/proofs";
import { type RedactConfig, redactConfig } from "@gateway/shared/redact";

/** Paths are as written; relative ones are relative to the working directory. */
export interface SignerConfig
  extends
    StateSettings,
    Readonly<Record<"listen" | "monitor_listen" | "server_cert" | "server_key" | "client_ca", string>>,
    Readonly<Record<"denied_callers" | "audit_log" | "audit_key" | "policy_tests", string>>,
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
  readonly approvals?: ApprovalsConfig;
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
  server_cert: path.describe("PEM file with the listener's certificate"),
  server_key: path.describe("PEM file with the listener's private key"),
  client_ca: path.describe("PEM file with the CA of the callers' certificates"),
  denied_callers: z.string().default("").describe(
    "file with the CNs, one per line, whose certificates are rejected although client_ca signed them; read every " +
      "10 seconds; empty means none",
  ),
  ca_key: z.string().default("").describe(
    "file with the private key of the SSH CA, for labs; ca_keys._default replaces it",
  ),
  ca_keys: z.record(z.string(), caKeyConfig).default({})
    .describe(
      "keys of the SSH CA by host group; the first matching group of a host applies; _default is for all other hosts",
    ),
  envelope_key: z.string().default("").describe(
    "file with an Ed25519 seed of exactly 32 bytes; the key signs envelopes and the revocation list; empty means none",
  ),
  audit_log: path.describe("path of the audit log; its directory must contain nothing else"),
  audit_key: path.describe("file whose first 32 bytes are the Ed25519 seed that signs audit records"),
  audit_fail_mode: z.enum(["", "closed", "open"]).default("closed")
    .describe(
      "closed: without an audit record, no certificate; open: log the failure and proceed. Read at start only",
    ),
  max_ttl_seconds: z.int().min(0).max(MAX_TTL_SECONDS).default(0)
    .describe("longest lifetime of a certificate if the host sets none, in seconds; 0 means 300"),
  max_command_bytes: z.int().min(1).max(MAX_SIGN_BODY_BYTES.ssh).default(MAX_COMMAND_BYTES)
    .describe(
      "longest command, in bytes; longer commands are rejected before they are parsed. The command of a file transfer " +
        "may have 16384 bytes",
    ),
  sign_rate_limit_per_min: z.int().min(0).default(0)
    .describe(
      "sign requests per minute and caller, with a burst of the same number, and as many dry runs in addition; behind a " +
        "trusted forwarder, per end user of a caller, and four times as many per caller; 0 means no limit",
    ),
  auto_reload_seconds: z.int().min(0).default(0)
    .describe(
      "interval between checks of the config file, in seconds; a changed file is reloaded; 0 means never",
    ),
  monitor_listen: z.string().default("").describe("address of the monitor listener; empty means none"),
  state_db: z.string().default("").describe(
    "storage of grants, waivers, freezes and revocations: an SQLite file for one signer, or for several signers " +
      "postgres://user@host:5432,host:5432/database, of which the signer uses the primary. Connections use TLS except " +
      "on loopback, on Unix sockets (%2Frun%2Fpostgresql as host) and with ?sslmode=disable. Empty means memory only",
  ),
  ...DATABASE_ACCESS_SHAPE,
  instance: z.string().regex(/^[A-Za-z0-9._-]{0,64}$/).default("")
    .describe("name of this signer among the signers that share a database; empty means the host name"),
  policy_source: z.enum(["file", "database"]).default("file").describe(
    "place of the hosts: file is this file; database is state_db (PostgreSQL), for all signers that share it. Load the " +
      "hosts with broker-ctl policy import and remove them from this file. Read at start only",
  ),
  max_grant_ttl_seconds: z.int().min(0).default(0).describe(
    "longest lifetime of a grant, in seconds; 0 means no limit",
  ),
  redact: redactConfig.exactOptional().describe(
    "masking of secrets in audit texts; absent means the built-in rules",
  ),
  end_user_oidc: endUserOidcConfig.exactOptional()
    .describe(
      "OpenID provider of end users; without it, callers with require_verified_end_user get no certificate",
    ),
  approvals: approvalsConfig.exactOptional().describe(
    "signed approvals; absent means that the word of a control plane or of a caller with self_approve suffices",
  ),
  reload_callers: z.array(z.string()).default([]).describe(
    "caller CNs that may use the admin routes; empty means none",
  ),
  krl_callers: z.record(z.string().min(1), z.array(z.string())).default({}).describe(
    "readers of the revocation list: the CN of a host's identity, and the names of the hosts on which it installs the " +
      "list; these CNs may do nothing else; needs envelope_key",
  ),
  trusted_forwarders: z.array(z.string()).default([]).describe(
    "caller CNs that may act on behalf of a broker",
  ),
  hosts: hosts.default({}).describe("hosts by logical name"),
  callers: z.record(z.string(), callerPolicy).default({})
    .describe(
      "callers by CN; empty means no restriction by groups; otherwise unlisted callers see no hosts",
    ),
  command_policies: commandPolicies.default({}).describe("command policies by name"),
  group_command_policies: z.record(z.string(), z.array(z.string())).default({})
    .describe("host group to names of command policies; _default applies to every host"),
  kubernetes: kubernetesConfig.exactOptional().describe("Kubernetes clusters; absent means hosts only"),
  policy_tests: z.string().default("").describe(
    "file with the expected decisions of broker-ctl policy test; a config or change whose tests fail is not loaded; the " +
      "file is read again at each reload; empty means none",
  ),
}).check(checkKrlCallers).check(checkState);

function checkState({ value, issues }: z.core.ParsePayload<SignerConfig>): void {
  // The message omits the value, because a URL may contain a password.
  const refuse = (path: readonly string[], message: string) =>
    issues.push({ code: "custom", path: [...path], message, input: undefined });
  for (const [key, message] of findStateProblems(value)) refuse([key], message);
  if (value.policy_source === "database" && !isPostgresUrl(value.state_db)) {
    refuse(["policy_source"], "needs a PostgreSQL database in state_db");
  }
}

/**
 * Rejects callers that are not identities of hosts, because such an identity gives access only to the
 * revocation list. Also requires an envelope key, without which hosts could not verify the list.
 */
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
      "is also in callers, reload_callers or trusted_forwarders, which is not allowed for a host's identity";
    refuse(["krl_callers", name], elsewhere);
  }
}

/**
 * Finds hosts that are configured in the wrong place: the file or the database. Neither place overrides the
 * other.
 */
export function findMisplacedHosts(
  { hosts, policy_source }: Pick<SignerConfig, "hosts" | "policy_source">,
): string | undefined {
  if (policy_source === "file" || Object.keys(hosts).length === 0) return undefined;
  return 'hosts: must be empty if policy_source is "database"; load the hosts with broker-ctl policy import, and ' +
    "remove them from the file";
}

/** The key paths of sealed hosts in a config without an envelope key. Such a config is rejected. */
export function findHostsWithoutKey(
  { hosts, envelope_key }: Pick<SignerConfig, "hosts" | "envelope_key">,
): readonly string[] {
  if (envelope_key !== "") return [];
  return Object.entries(hosts).filter(([, host]) => host.sealed_exec === true).map(([name]) =>
    `${formatKeyPath(["hosts", name, "sealed_exec"])}: needs envelope_key, the key that signs the commands`
  );
}

/** The number of people who may approve for a host or cluster of these groups. */
export function countApprovers(approvals: SignerConfig["approvals"], groups: readonly string[]): number {
  return Object.values(approvals?.approvers ?? {})
    .filter((person) => person.groups?.some((group) => groups.includes(group)) !== false).length;
}

/**
 * The numbers of signatures that more people must give than may approve: nobody could ever approve these requests. Such a
 * config is rejected. For `required`, all approvers count, because hosts can have no rule that requires an approval.
 */
export function findUnreachableApprovals(
  { approvals, hosts, kubernetes }: Pick<SignerConfig, "approvals" | "hosts" | "kubernetes">,
): readonly string[] {
  const { approvers = {}, required = 0, required_by_group = {} } = approvals ?? {};
  const all = Object.keys(approvers).length;
  /** For each group, the fewest people who may approve for one of its members. */
  const fewest = new Map<string, number>();
  const targets = [
    ...Object.entries(hosts).map(([name, host]) => [["hosts", name], host] as const),
    ...Object.entries(kubernetes?.clusters ?? {}).map(([name, cluster]) =>
      [["kubernetes", "clusters", name], cluster] as const
    ),
  ].map(([path, { groups = [], approvals_required = 0 }]) => {
    const able = countApprovers(approvals, groups);
    for (const group of groups) fewest.set(group, Math.min(able, fewest.get(group) ?? able));
    return [[...path, "approvals_required"], approvals_required, able] as const;
  });
  const wanted: (readonly [path: readonly string[], required: number, able: number])[] = [
    [["approvals", "required"], required, all],
    ...Object.entries(required_by_group).map(([group, required]) =>
      [["approvals", "required_by_group", group], required, fewest.get(group) ?? all] as const
    ),
    ...targets,
  ];
  return wanted.filter(([, required, able]) => required > able).map(([path, required, able]) =>
    `${formatKeyPath(path)}: needs ${required} approver${
      required === 1 ? "" : "s"
    }, and approvals.approvers has ${able} who may approve`
  );
}

/** The path of the temporary file to which a new text is written before it replaces the config. */
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
