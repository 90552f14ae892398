/** The tables of a signer's state database: what each row means. Times in it are whole seconds, rounded down. */
import type { Grant } from "@gateway/shared/policy";
import {
  flagColumn,
  integerColumn,
  listColumn,
  Table,
  textColumn,
  timeColumn,
  wordColumn,
} from "@gateway/shared/state";
import { FREEZE_KINDS } from "@gateway/shared/wire";
import type { Freeze } from "../freezes.ts";
import {
  type CertificateHolder,
  type IssuedBatch,
  type KeptRevocation,
  REVOCABLE_KINDS,
} from "../krl/certificates.ts";

/** A Secret that tokens of a cluster are bound to: one for each caller and end user. */
export interface Lease {
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  /** Empty: the Secret may be there or not. */
  readonly uid: string;
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** The CNs of the connections that received tokens: a freeze of a forwarder stops what it forwarded. */
  readonly peers: readonly string[];
  /** From when no token needs it, in milliseconds since the epoch; 0: it has to be deleted now. */
  readonly expiresAt: number;
}

const seconds = (name: string) => timeColumn(name, 1000);

export const GRANTS = new Table<Grant>("grants", {
  id: textColumn("id"),
  host: textColumn("host"),
  allow: listColumn("allow"),
  waiveApproval: listColumn("waive_approval"),
  caller: textColumn("caller"),
  endUser: textColumn("end_user"),
  sudo: flagColumn("sudo"),
  sudoUser: textColumn("sudo_user"),
  contentSha256: textColumn("content_sha256"),
  approver: textColumn("approver"),
  approvalId: textColumn("approval_id"),
  grantedAt: seconds("granted_at"),
  expiresAt: seconds("expires_at"),
});

export const FREEZES = new Table<Freeze>("freezes", {
  kind: wordColumn("kind", FREEZE_KINDS),
  value: textColumn("value"),
  reason: textColumn("reason"),
  frozenBy: textColumn("frozen_by"),
  frozenAt: seconds("frozen_at"),
});

/** Certificates of one holder that were issued in the same second for as long, with their serials separated by spaces. */
export const CERTIFICATES = new Table<
  CertificateHolder & Pick<IssuedBatch, "issuedAt" | "validBefore"> & { readonly serials: string }
>("certificates", {
  peer: textColumn("peer"),
  caller: textColumn("caller"),
  endUser: textColumn("end_user"),
  host: textColumn("host"),
  role: textColumn("role"),
  elevationPrefix: textColumn("elevation"),
  pty: flagColumn("pty"),
  issuedAt: integerColumn("issued_at"),
  validBefore: integerColumn("valid_before"),
  serials: textColumn("serials"),
});

export const REVOCATIONS = new Table<KeptRevocation>("revocations", {
  kind: wordColumn("kind", REVOCABLE_KINDS),
  value: textColumn("value"),
  revokedAt: seconds("revoked_at"),
});

export const LEASES = new Table<Lease>("leases", {
  cluster: textColumn("cluster"),
  name: textColumn("name"),
  namespace: textColumn("namespace"),
  uid: textColumn("uid"),
  caller: textColumn("caller"),
  endUser: textColumn("end_user"),
  peers: listColumn("peers"),
  expiresAt: seconds("expires_at"),
});
