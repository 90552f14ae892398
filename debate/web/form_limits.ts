import { AppError } from "@gateway/shared/errors";
import type { GivenFile } from "../context/collect.ts";

/** A form: every field and file in the order of its coming. */
export interface Form {
  readonly fields: ReadonlyMap<string, string>;
  readonly files: ReadonlyMap<string, readonly GivenFile[]>;
}

/** How large a form may be. */
export interface FormLimits {
  /** Of each file, in bytes. */
  readonly maxFileBytes: number;
}

/** Of all text fields together. */
export const MAX_FIELD_BYTES = 1 << 20;
export const MAX_PARTS = 100;
export const MAX_FILES = 20;
/** So many files of the largest size may come together. */
const MAX_LARGEST_FILES = 4;

/** The largest body of a form. */
export function maxFormBytes({ maxFileBytes }: FormLimits): number {
  return maxFileBytes * MAX_LARGEST_FILES + MAX_FIELD_BYTES + 64 * 1024;
}

/** @throws {AppError} `payload_too_large` */
export function tooLarge(what: string, bytes: number): AppError {
  return new AppError("payload_too_large", `${what} larger than ${bytes} bytes`);
}

/** Why a form cannot be read. */
export function invalidForm(problem: string): AppError {
  return new AppError("invalid_request", problem);
}
