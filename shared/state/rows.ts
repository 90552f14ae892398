/**
 * Rows of the state database, to and from what they mean.
 *
 * Texts are read as bytes: read as text, one with a NUL in it would come back cut off, and a scope of one
 * caller as that of another or of all.
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
import type { Freeze } from "../policy/freeze.ts";
import type { Grant } from "../policy/grants.ts";
import { quoteText } from "../quote.ts";
import { FREEZE_KINDS, type FreezeKind } from "../wire/freeze.ts";
import { checkStorable } from "./store.ts";

/** A row as the database gives it: by column, integers as bigint. */
export type Row = Readonly<Record<string, unknown>>;

/** The text columns of `grants`. */
export const GRANT_TEXTS = [
  "id",
  "host",
  "allow",
  "waive_approval",
  "caller",
  "end_user",
  "sudo_user",
  "approver",
  "approval_id",
] as const;
/** The integer columns of `grants`. */
export const GRANT_INTEGERS = ["sudo", "granted_at", "expires_at"] as const;
/** The text columns of `freezes`. */
export const FREEZE_TEXTS = ["kind", "value", "reason", "frozen_by"] as const;
/** The integer columns of `freezes`. */
export const FREEZE_INTEGERS = ["frozen_at"] as const;

/** What a statement is given for a named parameter. */
export type Parameters = Record<string, string | number>;

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
export function decodeGrant(row: Row): Grant {
  const sudo = readInteger(row, "sudo");
  if (sudo !== 0 && sudo !== 1) throw new TypeError(`column sudo: ${sudo} is neither 0 nor 1`);
  return {
    id: readText(row, "id"),
    host: readText(row, "host"),
    allow: readStrings(row, "allow"),
    waiveApproval: readStrings(row, "waive_approval"),
    caller: readText(row, "caller"),
    endUser: readText(row, "end_user"),
    sudo: sudo === 1,
    sudoUser: readText(row, "sudo_user"),
    approver: readText(row, "approver"),
    approvalId: readText(row, "approval_id"),
    grantedAt: readSeconds(row, "granted_at"),
    expiresAt: readSeconds(row, "expires_at"),
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
    frozenAt: readSeconds(row, "frozen_at"),
  };
}

function isFreezeKind(kind: string): kind is FreezeKind {
  return (FREEZE_KINDS as readonly string[]).includes(kind);
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}

function readText(row: Row, column: string): string {
  const bytes = row[column];
  if (!(bytes instanceof Uint8Array)) throw new TypeError(`column ${column} is not text`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new TypeError(`column ${column} is not UTF-8`);
  }
  if (text.includes("\0")) throw new TypeError(`column ${column} holds a NUL`);
  return text;
}

function readInteger(row: Row, column: string): number {
  const value = row[column];
  const number = typeof value === "bigint" ? Number(value) : NaN;
  if (!Number.isSafeInteger(number)) throw new TypeError(`column ${column} is not an integer in range`);
  return number;
}

function readSeconds(row: Row, column: string): number {
  const ms = readInteger(row, column) * 1000;
  // A date beyond the range of Date could not be shown, nor compared.
  if (Math.abs(ms) > 8.64e15) throw new TypeError(`column ${column} is not a time in range`);
  return ms;
}

/** A list was also written as `null` when it was empty. */
function readStrings(row: Row, column: string): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(readText(row, column));
  } catch (error) {
    if (error instanceof TypeError) throw error;
    throw new TypeError(`column ${column} is not JSON`);
  }
  if (value === null) return [];
  if (!Array.isArray(value)) throw new TypeError(`column ${column} is not a list`);
  return value.map((item: unknown) => {
    if (typeof item === "string") return item;
    throw new TypeError(`column ${column} is not a list of texts`);
  });
}
