/**
 * The check of a sign request's fields that comes before any policy.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signRequest } from "@gateway/shared/wire/sign";
 * import { checkSignFields } from "@gateway/shared/wire/sign_fields";
 *
 * const request = signRequest.parse({ host: "web01 role=bastion", role: "target", purpose: "oneshot" });
 * assert.throws(
 *   () => checkSignFields(request),
 *   { message: "invalid host: control or whitespace characters not allowed" },
 * );
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { isUnsafe } from "../characters.ts";
import { AppError } from "../errors.ts";
import {
  MAX_COMMAND_BYTES,
  MAX_CONTENT_HEAD_LENGTH,
  MAX_K8S_MANIFEST_BYTES,
  MAX_REASON_CHARACTERS,
  type SignRequest,
} from "./sign.ts";

/** These become tokens of the KeyId and of audit records: a blank or a control character would forge others. */
const TOKEN_FIELDS = [
  "host",
  "end_user",
  "role",
  "purpose",
  "session_mode",
  "session_id",
  "sudo_user",
  "k8s_verb",
  "k8s_resource",
  "k8s_group",
  "k8s_namespace",
  "k8s_name",
] as const;

/**
 * Rejects what no policy needs to see: unsafe characters, texts that are too long, and what this version does not
 * support.
 *
 * @param maxCommandBytes limit of the command in UTF-8; the command of a file transfer has that of the body alone
 * @throws {AppError} `invalid_request` naming the field; `not_supported`
 */
export function checkSignFields(request: SignRequest, maxCommandBytes: number = MAX_COMMAND_BYTES): void {
  for (const field of TOKEN_FIELDS) {
    if (isUnsafe(request[field])) throw unsafe(field);
  }
  checkCaller(request.on_behalf_of);
  for (const group of request.end_user_groups ?? []) {
    if (isUnsafe(group)) throw unsafe("end_user_groups");
  }
  if (request.command.includes("\0")) {
    throw new AppError("invalid_request", "invalid command: NUL not allowed");
  }
  if (!request.file_transfer && Buffer.byteLength(request.command) > maxCommandBytes) {
    throw new AppError(
      "invalid_request",
      `invalid command: longer than ${maxCommandBytes} bytes (max_command_bytes)`,
    );
  }
  if (!isTargetType(request.target_type)) {
    throw new AppError(
      "not_supported",
      `target_type ${JSON.stringify(request.target_type)} is not supported yet`,
    );
  }
  if (request.learn_ttl_seconds < 0) {
    throw new AppError("invalid_request", "invalid learn_ttl_seconds: must not be negative");
  }
  for (const field of ["learn_approver", "learn_approval_id"] as const) {
    if (isUnsafe(request[field])) throw unsafe(field);
  }
  if (request.target_type === "k8s" && request.k8s_manifest !== "" && request.k8s_verb !== "apply") {
    throw new AppError("invalid_request", "invalid k8s_manifest: it goes with the verb apply alone");
  }
  if (request.k8s_force_fields.length > 0 && request.k8s_manifest === "") {
    throw new AppError("invalid_request", "invalid k8s_force_fields: they go with a k8s_manifest alone");
  }
  if (Buffer.byteLength(request.k8s_manifest) > MAX_K8S_MANIFEST_BYTES) {
    throw new AppError(
      "invalid_request",
      `invalid k8s_manifest: longer than ${MAX_K8S_MANIFEST_BYTES} bytes`,
    );
  }
  checkReason(request.reason, "reason");
  if (!/^(?:[0-9a-f]{64})?$/.test(request.content_sha256)) {
    throw new AppError("invalid_request", "invalid content_sha256: must be 64 lowercase hex digits");
  }
  if (request.content_head.length > MAX_CONTENT_HEAD_LENGTH) {
    throw new AppError("invalid_request", `invalid content_head: longer than ${MAX_CONTENT_HEAD_LENGTH}`);
  }
}

function isTargetType(text: string): boolean {
  return text === "" || text === "ssh" || text === "k8s";
}

/**
 * Refuses a reason or a comment that is too long to be read.
 *
 * @throws {AppError} `invalid_request` naming the field
 */
export function checkReason(text: string, field: string): void {
  // Counted only where it can matter: a character is two units at most.
  if (text.length <= MAX_REASON_CHARACTERS || [...text].length <= MAX_REASON_CHARACTERS) return;
  throw new AppError("invalid_request", `invalid ${field}: more than ${MAX_REASON_CHARACTERS} characters`);
}

/**
 * Refuses a caller whose name could not be told on unchanged, or would forge a field of a record.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkCaller(caller: string): void {
  if (isUnsafe(caller)) throw unsafe("caller identity");
}

function unsafe(field: string): AppError {
  return new AppError("invalid_request", `invalid ${field}: control or whitespace characters not allowed`);
}
