/**
 * What went wrong between us and a key vault, in words that give nothing away.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeVaultFailure } from "./vault_failure.ts";
 *
 * const failure = Object.assign(new Error("Forbidden by https://ca.vault.example"), { statusCode: 403 });
 * assert.equal(describeVaultFailure(failure).text, "the vault refuses these credentials (status 403)");
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";

/** A failure for people, for the log, and for programs. */
interface VaultFailure {
  /** Without address, key id or secret. */
  readonly text: string;
  /** For the log: the name and message of the original, but not its request, which holds the access token. */
  readonly cause: Error | undefined;
  /** What the vault asked for, in seconds. */
  readonly retryAfterSeconds?: number;
}

const MAX_RETRY_AFTER_SECONDS = 3600;

/** Describes an error of the vendor's packages, or one of ours. */
export function describeVaultFailure(failure: unknown): VaultFailure {
  if (failure instanceof AppError) {
    return { text: failure.message, cause: toError(failure.cause) };
  }
  const retryAfterSeconds = retryAfterOf(failure);
  return {
    text: textOf(failure, statusOf(failure)),
    cause: toError(failure),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
}

/** Whether an immediate second attempt may succeed: no answer at all, or a server error without `Retry-After`. */
export function isTransient(failure: unknown): boolean {
  if (!(failure instanceof Error) || failure instanceof AppError) return false;
  const status = statusOf(failure);
  if (status !== undefined) return status >= 500 && retryAfterOf(failure) === undefined;
  return isConnectionFailure(failure) && !isNotCapable(failure);
}

function textOf(failure: unknown, status: number | undefined): string {
  if (status === 401 || status === 403) return `the vault refuses these credentials (status ${status})`;
  if (status === 404) return "the vault has no such key or version";
  if (status === 429) return "the vault is busy (status 429)";
  // A status under 300 is here when the answer was none that the packages understand.
  if (status !== undefined && status >= 300) return `the vault answered with status ${status}`;
  if (isNotCapable(failure)) return "an address is outside this process's permissions";
  if (!(failure instanceof Error)) return "it failed";
  if (isConnectionFailure(failure)) return "the vault cannot be reached";
  if (/^(?:CredentialUnavailable|(?:Aggregate)?Authentication)/.test(failure.name)) {
    return "signing in to the cloud failed";
  }
  return "the vault's answer cannot be used";
}

/** The packages pass on the system's code (`ECONNRESET`), or put a general one in its place. */
function isConnectionFailure(failure: Error): boolean {
  return failure.name === "RestError" && statusOf(failure) === undefined && "code" in failure &&
    failure.code !== "PARSE_ERROR";
}

function isNotCapable(failure: unknown): boolean {
  for (let error = failure, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth++) {
    if (error.name === "NotCapable" || /^Requires (?:net|env|sys|run|read) access/.test(error.message)) {
      return true;
    }
  }
  return false;
}

function statusOf(failure: unknown): number | undefined {
  const status = member(failure, "statusCode");
  return typeof status === "number" ? status : undefined;
}

function retryAfterOf(failure: unknown): number | undefined {
  const headers = member(member(failure, "response"), "headers");
  const get = member(headers, "get");
  if (typeof get !== "function") return undefined;
  const text: unknown = get.call(headers, "retry-after");
  const seconds = typeof text === "string" && /^\d{1,9}$/.test(text) ? Number(text) : undefined;
  return seconds === undefined ? undefined : Math.min(seconds, MAX_RETRY_AFTER_SECONDS);
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function toError(failure: unknown): Error | undefined {
  return failure instanceof Error ? new Error(`${failure.name}: ${failure.message}`) : undefined;
}
