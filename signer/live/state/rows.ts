/**
 * Rows of the signer's state database, to and from what they mean.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { decodeFreeze } from "./rows.ts";
 *
 * const bytes = (text: string) => new TextEncoder().encode(text);
 * const row = { kind: bytes("host"), value: bytes("web01"), reason: bytes(""), frozen_by: bytes(""), frozen_at: 0n };
 * assert.throws(() => decodeFreeze(row), /unknown kind "host"/);
 * ```
 *
 * @module
 */
import type { Freeze } from "../freezes.ts";
import type { Grant } from "@gateway/shared/policy";
import type { Lease } from "../lease.ts";
import type { IssuedBatch } from "../krl/issued.ts";
import { type KeptRevocation, readSerial, REVOCABLE_KINDS } from "../krl/revocations.ts";
import { quoteText } from "@gateway/shared/text";
import { FREEZE_KINDS, type FreezeKind } from "@gateway/shared/wire";
import {
  checkStorable,
  type Parameters,
  readFlag,
  readInteger,
  readStrings,
  readText,
  readTime,
  type Row,
  type RowReader,
} from "@gateway/shared/state";

export const GRANT_TEXTS = [
  "id",
  "host",
  "allow",
  "waive_approval",
  "caller",
  "end_user",
  "sudo_user",
  "content_sha256",
  "approver",
  "approval_id",
] as const;
export const GRANT_INTEGERS = ["sudo", "granted_at", "expires_at"] as const;
export const FREEZE_TEXTS = ["kind", "value", "reason", "frozen_by"] as const;
export const FREEZE_INTEGERS = ["frozen_at"] as const;

export const CERTIFICATE_TEXTS = [
  "peer",
  "caller",
  "end_user",
  "host",
  "role",
  "elevation",
  "serials",
] as const;
export const CERTIFICATE_INTEGERS = ["pty", "issued_at", "valid_before"] as const;
export const REVOCATION_TEXTS = ["kind", "value"] as const;
export const REVOCATION_INTEGERS = ["revoked_at"] as const;

export const LEASE_TEXTS = ["cluster", "name", "namespace", "uid", "caller", "end_user", "peers"] as const;
export const LEASE_INTEGERS = ["expires_at"] as const;

/** The times in it are in seconds. */
const SECOND_MS = 1000;

/**
 * The columns of a grant.
 *
 * @throws {AppError} `internal` when a text can't be kept as it is
 */
export function encodeGrant(grant: Grant): Parameters {
  const row = {
    id: grant.id,
    host: grant.host,
    allow: JSON.stringify(grant.allow),
    waive_approval: JSON.stringify(grant.waiveApproval),
    caller: grant.caller,
    end_user: grant.endUser,
    sudo: grant.sudo ? 1 : 0,
    sudo_user: grant.sudoUser,
    content_sha256: grant.contentSha256,
    approver: grant.approver,
    approval_id: grant.approvalId,
    granted_at: toSeconds(grant.grantedAt),
    expires_at: toSeconds(grant.expiresAt),
  };
  checkStorable(GRANT_TEXTS.map((column) => row[column]));
  return row;
}

/**
 * A grant from its row.
 *
 * @throws {TypeError} saying which column can't be read
 */
function decodeGrant(row: Row): Grant {
  return {
    id: readText(row, "id"),
    host: readText(row, "host"),
    allow: readStrings(row, "allow"),
    waiveApproval: readStrings(row, "waive_approval"),
    caller: readText(row, "caller"),
    endUser: readText(row, "end_user"),
    sudo: readFlag(row, "sudo"),
    sudoUser: readText(row, "sudo_user"),
    contentSha256: readText(row, "content_sha256"),
    approver: readText(row, "approver"),
    approvalId: readText(row, "approval_id"),
    grantedAt: readTime(row, "granted_at", SECOND_MS),
    expiresAt: readTime(row, "expires_at", SECOND_MS),
  };
}

/**
 * The columns of a freeze.
 *
 * @throws {AppError} `internal` when a text can't be kept as it is
 */
export function encodeFreeze(freeze: Freeze): Parameters {
  const { kind, value, reason, frozenBy } = freeze;
  checkStorable([value, reason, frozenBy]);
  return { kind, value, reason, frozen_by: frozenBy, frozen_at: toSeconds(freeze.frozenAt) };
}

/**
 * A freeze from its row.
 *
 * @throws {TypeError} saying which column can't be read
 */
export function decodeFreeze(row: Row): Freeze {
  const kind = readText(row, "kind");
  if (!isFreezeKind(kind)) throw new TypeError(`unknown kind ${quoteText(kind)}`);
  return {
    kind,
    value: readText(row, "value"),
    reason: readText(row, "reason"),
    frozenBy: readText(row, "frozen_by"),
    frozenAt: readTime(row, "frozen_at", SECOND_MS),
  };
}

/**
 * The columns of certificates of one kind.
 *
 * @throws {AppError} `internal` when a text can't be kept as it is
 */
export function encodeCertificates({ holder, issuedAt, validBefore, serials }: IssuedBatch): Parameters {
  const row = {
    peer: holder.peer,
    caller: holder.caller,
    end_user: holder.endUser,
    host: holder.host,
    role: holder.role,
    elevation: holder.elevationPrefix,
    pty: holder.pty ? 1 : 0,
    issued_at: issuedAt,
    valid_before: validBefore,
    serials: serials.join(" "),
  };
  checkStorable(CERTIFICATE_TEXTS.map((column) => row[column]));
  return row;
}

/**
 * Certificates from their row.
 *
 * @throws {TypeError} saying which column can't be read
 */
export function decodeCertificates(row: Row): IssuedBatch {
  return {
    holder: {
      peer: readText(row, "peer"),
      caller: readText(row, "caller"),
      endUser: readText(row, "end_user"),
      host: readText(row, "host"),
      role: readText(row, "role"),
      elevationPrefix: readText(row, "elevation"),
      pty: readFlag(row, "pty"),
    },
    issuedAt: readInteger(row, "issued_at"),
    validBefore: readInteger(row, "valid_before"),
    serials: readText(row, "serials").split(" ").map((text) => {
      const serial = readSerial(text);
      if (serial === undefined) throw new TypeError("column serials is not a list of serials");
      return serial;
    }),
  };
}

/**
 * The columns of a revocation.
 *
 * @throws {AppError} `internal` when a text can't be kept as it is
 */
export function encodeRevocation({ kind, value, revokedAt }: KeptRevocation): Parameters {
  checkStorable([value]);
  return { kind, value, revoked_at: toSeconds(revokedAt) };
}

/**
 * A revocation from its row.
 *
 * @throws {TypeError} saying which column can't be read
 */
export function decodeRevocation(row: Row): KeptRevocation {
  const text = readText(row, "kind");
  const kind = REVOCABLE_KINDS.find((known) => known === text);
  if (kind === undefined) throw new TypeError(`unknown kind ${quoteText(text)}`);
  return { kind, value: readText(row, "value"), revokedAt: readTime(row, "revoked_at", SECOND_MS) };
}

/**
 * The columns of a lease.
 *
 * @throws {AppError} `internal` when a text can't be kept as it is
 */
export function encodeLease(lease: Lease): Parameters {
  const row = {
    cluster: lease.cluster,
    name: lease.name,
    namespace: lease.namespace,
    uid: lease.uid,
    caller: lease.caller,
    end_user: lease.endUser,
    peers: JSON.stringify(lease.peers),
    expires_at: toSeconds(lease.expiresAt),
  };
  checkStorable(LEASE_TEXTS.map((column) => row[column]));
  return row;
}

/**
 * A lease from its row.
 *
 * @throws {TypeError} saying which column can't be read
 */
export function decodeLease(row: Row): Lease {
  return {
    cluster: readText(row, "cluster"),
    name: readText(row, "name"),
    namespace: readText(row, "namespace"),
    uid: readText(row, "uid"),
    caller: readText(row, "caller"),
    endUser: readText(row, "end_user"),
    peers: readStrings(row, "peers"),
    expiresAt: readTime(row, "expires_at", SECOND_MS),
  };
}

function isFreezeKind(kind: string): kind is FreezeKind {
  return (FREEZE_KINDS as readonly string[]).includes(kind);
}

function toSeconds(ms: number): number {
  return Math.floor(ms / SECOND_MS);
}

/** How grants are read: one that can't be read grants nothing. */
export const GRANT_READER: RowReader<Grant> = {
  decode: decodeGrant,
  key: "id",
  warning: "A grant in state_db can't be read and has no effect",
};
