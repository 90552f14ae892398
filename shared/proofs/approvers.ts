// The people who may sign approvals: their config and its compiled form.
import { createPublicKey, type KeyObject } from "node:crypto";
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { type ApproverConfig, MAX_REQUIRED_APPROVALS } from "../policy/mod.ts";
import { RSA_BITS } from "../ssh/keys.ts";
import { fingerprint } from "../ssh/mod.ts";
import { foldIdentity, quoteText } from "../text.ts";
import { parseApprovalKey } from "./sshsig.ts";

/** The block `approvals` of the signer's config. */
export interface ApprovalsConfig {
  readonly installation_id: string;
  readonly approvers: Readonly<Record<string, ApproverConfig>>;
  readonly required: number;
  readonly required_by_group: Readonly<Record<string, number>>;
  readonly passkey_rp_id?: string;
  readonly passkey_origins?: readonly string[];
}

const base64url = z.string().regex(/^[A-Za-z0-9_-]+$/, "must be base64url without padding");
const strings = (about: string) => z.array(z.string().min(1)).exactOptional().describe(about);
const requiredApprovals = z.int().min(0).max(MAX_REQUIRED_APPROVALS);

const approver: z.ZodType<ApproverConfig> = z.strictObject({
  ssh_keys: strings("SSH public keys, authorized_keys lines: Ed25519, ECDSA, RSA, or a security key"),
  passkeys: z.array(z.strictObject({
    id: base64url.describe("ID of the credential, base64url"),
    public_key: base64url.describe("public key, base64url of its DER form"),
  })).exactOptional().describe("passkeys, as the page /ui/passkey shows them"),
  groups: strings(
    "groups of the hosts and clusters whose requests the approver may approve; absent means all",
  ),
  identities: strings(
    "other names of this person as caller, end user or chat user: none of these requests can be approved with the keys above",
  ),
});

/** Checks an {@linkcode ApprovalsConfig}; unknown keys are rejected. */
export const approvalsConfig: z.ZodType<ApprovalsConfig> = z.strictObject({
  installation_id: z.string().regex(/^[A-Za-z0-9._-]{8,64}$/).describe(
    "name of this installation in signed decisions, different for every installation; never change it",
  ),
  approvers: z.record(z.string().min(1), approver).describe("people who may sign approvals, by name"),
  required: requiredApprovals.default(0).describe(
    "number of different people who must sign an approval; the largest number of this key, required_by_group and " +
      "approvals_required of the host or cluster applies; 0 means that the control plane's word suffices",
  ),
  required_by_group: z.record(z.string(), requiredApprovals).default({}).describe(
    "number of people who must sign, by group of hosts or clusters",
  ),
  passkey_rp_id: z.string().regex(/^[a-z0-9.-]+$/).exactOptional().describe(
    "domain of the pages on which passkeys are used, such as approve.example.com; an IP address is impossible",
  ),
  passkey_origins: strings("origins of these pages, such as https://approve.example.com:8443"),
});

/** A credential that may sign for its approver. */
type Credential =
  | { readonly kind: "ssh"; readonly name: string }
  | { readonly kind: "passkey"; readonly name: string; readonly key: KeyObject };

/** One approver, ready for verification. */
export interface Approver {
  readonly name: string;
  /** The folded names of this person, the own name included. */
  readonly identities: ReadonlySet<string>;
  /** `undefined`: every group. */
  readonly groups: ReadonlySet<string> | undefined;
  /** By base64 of the SSH key's blob, or by the ID of the passkey. */
  readonly credentials: ReadonlyMap<string, Credential>;
}

/** The approvers of an installation. */
export interface Approvers {
  readonly installation: string;
  readonly byName: ReadonlyMap<string, Approver>;
  readonly rpId: string;
  readonly origins: ReadonlySet<string>;
}

/** Compiles approvers, or lists every problem with its key path. A person with two names could be a quorum alone. */
export function compileApprovers(
  config: ApprovalsConfig,
):
  | { readonly kind: "ok"; readonly approvers: Approvers }
  | { readonly kind: "invalid"; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const owners = new Map<string, string>();
  const own = (thing: string, name: string, what: string) => {
    const owner = owners.get(thing);
    if (owner !== undefined && owner !== name) {
      problems.push(`approvals.approvers.${name}: ${what} also belongs to ${quoteText(owner)}`);
    }
    owners.set(thing, name);
  };
  const byName = new Map(
    Object.entries(config.approvers).map(
      ([name, { ssh_keys = [], passkeys = [], groups, identities = [] }]) => {
        const folded = new Set([name, ...identities].map(foldIdentity));
        for (const each of folded) own(`name ${each}`, name, `the name ${quoteText(each)}`);
        const credentials = new Map<string, Credential>();
        const add = (id: string, read: () => Credential) => {
          try {
            credentials.set(id, read());
            own(id, name, "a key");
          } catch (error) {
            if (!(error instanceof AppError)) throw error;
            problems.push(`approvals.approvers.${name}: ${error.message}`);
          }
        };
        for (const line of ssh_keys) {
          const base64 = line.trim().split(/[ \t]+/, 2)[1] ?? "";
          add(base64, () => ({ kind: "ssh", name: fingerprint(parseApprovalKey(line).blob) }));
        }
        for (const { id, public_key } of passkeys) {
          add(id, () => {
            const key = parsePasskey(public_key);
            // A key that two people share could be a quorum alone, also with two IDs.
            own(key.export({ format: "der", type: "spki" }).toString("hex"), name, "a key");
            return { kind: "passkey", name: id, key };
          });
        }
        if (passkeys.length > 0 && (config.passkey_rp_id ?? "") === "") {
          problems.push(`approvals.approvers.${name}.passkeys: needs approvals.passkey_rp_id`);
        }
        return [name, {
          ...{ name, identities: folded, credentials },
          groups: groups === undefined ? undefined : new Set(groups),
        }];
      },
    ),
  );
  if (problems.length > 0) return { kind: "invalid", problems };
  const { installation_id: installation, passkey_rp_id: rpId = "", passkey_origins = [] } = config;
  const origins = new Set(passkey_origins.length > 0 ? passkey_origins : [`https://${rpId}`]);
  return { kind: "ok", approvers: { installation, byName, rpId, origins } };
}

/** The key types that authenticators use for ES256, EdDSA and RS256. */
const PASSKEY_TYPES: readonly (string | undefined)[] = ["ec", "ed25519", "rsa"];

function parsePasskey(publicKey: string): KeyObject {
  const message =
    `Cannot read the public key of a passkey: not base64url of a DER public key (EC, Ed25519, or RSA of ${RSA_BITS.min} bits)`;
  try {
    const key = createPublicKey({
      key: Uint8Array.fromBase64(publicKey, { alphabet: "base64url" }) as Uint8Array & Buffer,
      format: "der",
      type: "spki",
    });
    const { modulusLength = RSA_BITS.min } = key.asymmetricKeyDetails ?? {};
    if (PASSKEY_TYPES.includes(key.asymmetricKeyType) && modulusLength >= RSA_BITS.min) return key;
  } catch (cause) {
    throw new AppError("invalid_request", message, { cause });
  }
  throw new AppError("invalid_request", message);
}
