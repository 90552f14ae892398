// `ca_keys`: the places of the CA keys. A host's key is that of the first of its groups with an entry, else
// the entry `_default`, else `ca_key`.
import * as z from "@zod/zod";
import { type Clock, type Random, randomSerial } from "../clock.ts";
import { AppError } from "../errors.ts";
import type { AllowedSsh } from "../policy/ssh.ts";
import {
  type CertificateSigner,
  formatCertificate,
  formatKeyId,
  issueCertificate,
  type KeyIdParts,
} from "../ssh/certificate.ts";

/** The kinds of places for a CA key. */
export const CA_KEY_TYPES = ["pem", "agent", "akv"] as const;

/** A key in an ssh-agent. */
export interface AgentCaKeyConfig {
  readonly type: "agent";
  /** Path of the agent's socket; `""` is the value of `SSH_AUTH_SOCK`. */
  readonly socket: string;
  readonly public_key_path: string;
}

/** A key in an Azure Key Vault. */
export interface AkvCaKeyConfig {
  readonly type: "akv";
  /** `https://<vault>`. */
  readonly vault_url: string;
  readonly key_name: string;
  /** The version of the key; `""` is the latest version at the time of loading. */
  readonly key_version: string;
  /** Absent: the cloud's default chain of credentials. */
  readonly credential?: Readonly<Record<"tenant_id" | "client_id" | "client_secret_env", string>>;
}

/** One entry of `ca_keys`. */
export type CaKeyConfig =
  | { readonly type: "pem"; readonly path: string }
  | AgentCaKeyConfig
  | AkvCaKeyConfig;

const text = z.string();
const ENVIRONMENT_NAME = /^(?:|[A-Za-z_][A-Za-z0-9_]*)$/;
// The form of Key Vault's names for keys and versions. Any other text could change the URL of the call.
const VAULT_NAME = /^[A-Za-z0-9-]{1,127}$/;
const VAULT_VERSION = /^[A-Za-z0-9]{0,64}$/;

// One flat object instead of a union: the reference page has one row for each key, and the message for a key of
// another type names that type.
const entry = z.strictObject({
  type: z.enum(CA_KEY_TYPES).describe(
    "pem: a key file, for labs; agent: an ssh-agent; akv: an Azure Key Vault",
  ),
  path: text.min(1).exactOptional().describe("pem: the private key file, without passphrase"),
  socket: text.exactOptional().describe("agent: Unix socket; empty means the value of SSH_AUTH_SOCK"),
  public_key_path: text.min(1).exactOptional()
    .describe(
      "agent: file with the public key of the CA, which selects the agent's key; Ed25519, ECDSA on P-256, P-384 or " +
        "P-521, or RSA of 2048 to 4096 bits (signs as rsa-sha2-512)",
    ),
  vault_url: text.min(1).exactOptional().describe("akv: https URL of the vault"),
  key_name: text.regex(VAULT_NAME, "must be 1 to 127 letters, digits and dashes").exactOptional()
    .describe("akv: name of the key; RSA, or EC on P-256, P-384 or P-521"),
  key_version: text.regex(VAULT_VERSION, "must be letters and digits").exactOptional()
    .describe("akv: version of the key; empty means the latest version at load time, until the next reload"),
  tenant_id: text.exactOptional().describe(
    "akv: set together with client_id and client_secret_env; without all three, the default credential chain applies",
  ),
  client_id: text.exactOptional().describe("akv: see tenant_id"),
  client_secret_env: text.regex(ENVIRONMENT_NAME, "must be the name of an environment variable")
    .exactOptional().describe("akv: name of the environment variable that holds the client secret"),
});

type Entry = z.infer<typeof entry>;
type EntryKey = Exclude<keyof Entry, "type">;

const KEYS_OF: Readonly<Record<Entry["type"], readonly EntryKey[]>> = {
  pem: ["path"],
  agent: ["socket", "public_key_path"],
  akv: ["vault_url", "key_name", "key_version", "tenant_id", "client_id", "client_secret_env"],
};
const REQUIRED: readonly EntryKey[] = ["path", "public_key_path", "vault_url", "key_name"];
const SECRET_KEYS = ["tenant_id", "client_id", "client_secret_env"] as const;

/** Checks a {@linkcode CaKeyConfig}; a key that is unknown or belongs to another type is rejected. */
export const caKeyConfig: z.ZodType<CaKeyConfig> = entry.superRefine((value, context) => {
  const report = (key: EntryKey, message: string) =>
    context.addIssue({ code: "custom", path: [key], message });
  const { type, vault_url } = value;
  for (const owner of CA_KEY_TYPES) {
    for (const key of KEYS_OF[owner]) {
      if (owner !== type && key in value) report(key, `belongs to ca_keys of type ${owner}, not ${type}`);
      if (owner === type && REQUIRED.includes(key) && value[key] === undefined) {
        report(key, `is missing, type ${type} needs it`);
      }
    }
  }
  if (type !== "akv") return;
  // With a path, a query or a user name, the calls would go to another address than the operator expects.
  if (
    vault_url !== undefined && !(/^https:\/\/[^\/?#@\\\s]+\/?$/i.test(vault_url) && URL.canParse(vault_url))
  ) {
    report("vault_url", "must be https://host or https://host:port, nothing else");
  }
  const missing = SECRET_KEYS.filter((key) => !value[key]);
  if (missing.length === SECRET_KEYS.length) return;
  for (const key of missing) {
    // Without a complete credential, the default chain would sign in as another identity than the operator
    // configured.
    report(key, `is missing: ${SECRET_KEYS.join(", ")} are set together or not at all`);
  }
}).transform((value): CaKeyConfig => {
  const { type, path = "", socket = "", public_key_path = "", vault_url = "", key_name = "" } = value;
  switch (type) {
    case "pem":
      return { type, path };
    case "agent":
      return { type, socket, public_key_path };
    case "akv": {
      const { key_version = "", tenant_id = "", client_id = "", client_secret_env = "" } = value;
      return {
        type,
        vault_url: URL.parse(vault_url)?.origin ?? vault_url,
        key_name,
        key_version,
        ...(tenant_id !== "" && { credential: { tenant_id, client_id, client_secret_env } }),
      };
    }
    default:
      return type satisfies never;
  }
});

/** The keys of a config that name CA keys. */
export interface CaKeySettings {
  /** Path of a private key file; absent or `""`: none. */
  readonly ca_key?: string | undefined;
  /** Keys by host group; `_default` is for every other host. */
  readonly ca_keys?: Readonly<Record<string, CaKeyConfig>> | undefined;
}

/** Every CA key that a config names; `undefined` if hosts without an entry have no key. */
export function planCaKeys({ ca_key = "", ca_keys = {} }: CaKeySettings): CaKeyRing<CaKeyConfig> | undefined {
  const { _default, ...groups } = ca_keys;
  const byGroup = new Map(Object.entries(groups));
  if (_default !== undefined) return { byGroup, fallback: _default };
  return ca_key === "" ? undefined : { byGroup, fallback: { type: "pem", path: ca_key } };
}

// Issues the certificate for a decision, signed by the CA key of the host's group.

/** A CA key that signs certificates. The private half never leaves the object. */
export interface CaKey extends CertificateSigner {
  /** The place of the key. `pem` is a file, for labs. */
  readonly backend: "pem" | "agent" | "akv";
  /** The key type on the SSH wire, e.g. `ssh-ed25519`. */
  readonly algorithm: string;
}

/** CA keys, or their configs, by host group. */
export interface CaKeyRing<K> {
  readonly byGroup: ReadonlyMap<string, K>;
  /** The key for hosts without a group that has a key. */
  readonly fallback: K;
}

/** The key for a host: that of the first of its groups that has one. */
export function selectCaKey<K>(ring: CaKeyRing<K>, groups: readonly string[]): K {
  for (const group of groups) {
    const key = ring.byGroup.get(group);
    if (key !== undefined) return key;
  }
  return ring.fallback;
}

/** A certificate with its facts. */
export interface IssuedCertificate {
  /** One authorized_keys line without comment, with its newline. */
  readonly certificate: string;
  readonly serial: bigint;
  readonly keyId: Required<KeyIdParts>;
  /** The first second since the epoch that is no longer valid. */
  readonly validBefore: number;
}

/** The limit of all configs. */
const MAX_TTL_SECONDS = 900;
/** The tolerance for a host whose clock is slow. */
const CLOCK_SKEW_SECONDS = 30;

/**
 * Creates and signs the certificate for a decision: short-lived, for one principal, locked to a command, with only the
 * requested permissions. No certificate allows agent forwarding, X11 forwarding or the user's rc file. Record the
 * certificate before you release it.
 *
 * @throws {AppError} `denied`, `principal is required`, if the host has none; `upstream_failure` if the CA key could not
 *   sign
 * @throws {RangeError} if the lifetime is not 1 to 900 whole seconds
 */
export async function issueUserCertificate(
  { decision, caller, endUser, publicKey }: {
    readonly decision: AllowedSsh;
    /** The effective caller. */
    readonly caller: string;
    /** Empty: none. */
    readonly endUser: string;
    /** The Ed25519 key to certify, 32 bytes. */
    readonly publicKey: Uint8Array;
  },
  { caKeys, clock, random }: {
    readonly caKeys: CaKeyRing<CaKey>;
    readonly clock: Clock;
    readonly random: Random;
  },
): Promise<IssuedCertificate> {
  const { host, role, pty, forceCommand, ttlSeconds, sudoPrefix: elevationPrefix } = decision;
  const { principal, source_address = "", groups } = host;
  if (principal === "") throw new AppError("denied", "principal is required");
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > MAX_TTL_SECONDS) {
    throw new RangeError(`Lifetime of a certificate is not 1 to ${MAX_TTL_SECONDS} seconds: ${ttlSeconds}`);
  }
  const serial = randomSerial(random);
  const issuedAt = Math.floor(clock.now() / 1000);
  const keyId = { caller, host: host.name, role, issuedAt, endUser, elevationPrefix, pty };
  const validBefore = issuedAt + ttlSeconds;
  const fields = {
    publicKey,
    nonce: random.bytes(32),
    serial,
    keyId: formatKeyId(keyId),
    principals: [principal],
    validAfter: issuedAt - CLOCK_SKEW_SECONDS,
    validBefore,
    criticalOptions: {
      ...(forceCommand !== "" && { "force-command": forceCommand }),
      ...(source_address !== "" && { "source-address": source_address }),
    },
    extensions: [
      ...(role === "bastion" ? ["permit-port-forwarding"] : []),
      ...(pty ? ["permit-pty"] : []),
    ],
  };
  try {
    const signed = await issueCertificate(fields, selectCaKey(caKeys, groups));
    return { certificate: formatCertificate(signed), serial, keyId, validBefore };
  } catch (cause) {
    throw new AppError("upstream_failure", "the CA key could not sign", { cause });
  }
}
