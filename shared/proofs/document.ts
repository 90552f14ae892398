// The decision document and the digest of the request that it is about.
import { createHash } from "node:crypto";
import * as z from "@zod/zod";
import { parseUniqueJson } from "../json.ts";
import type { ApprovalSubject, SignRequest } from "../wire/mod.ts";

/** What an approver signs. The signature is over its JSON text, byte for byte. */
export interface DecisionDocument {
  /** The version of this format. */
  readonly v: 1;
  /** `installation_id` of the signer. */
  readonly installation: string;
  /** SHA-256 of the request: see {@linkcode digestSubject}. */
  readonly request: string;
  /** The name of the approver in the signer's config. */
  readonly approver: string;
  readonly decision: "approve";
  /** The longest lifetime of a learned waiver; 0: learn nothing. */
  readonly learn_ttl_seconds: number;
  /** The number of certificates or tokens that the document allows. */
  readonly uses: 1;
  /** The last valid second since the epoch. */
  readonly expires_at: number;
  /** 32 lowercase hex digits, never used before. */
  readonly nonce: string;
}

/** The longest lifetime of a document that a signer accepts. */
export const MAX_DOCUMENT_SECONDS = 86_400;

const hex = (digits: number) => z.string().regex(new RegExp(`^[0-9a-f]{${digits}}$`));

const decisionDocument: z.ZodType<DecisionDocument> = z.strictObject({
  v: z.literal(1),
  installation: z.string().min(1),
  request: hex(64),
  approver: z.string().min(1),
  decision: z.literal("approve"),
  learn_ttl_seconds: z.int().min(0),
  uses: z.literal(1),
  expires_at: z.int().positive(),
  nonce: hex(32),
});

/** Reads a document; `undefined` if it is not one of this version. */
export function parseDocument(text: string): DecisionDocument | undefined {
  try {
    const result = decisionDocument.safeParse(parseUniqueJson(text));
    return result.success ? result.data : undefined;
  } catch {
    return undefined;
  }
}

/** The text of a document. */
export function formatDocument(document: DecisionDocument): string {
  return canonicalJson(document);
}

/** The part of a sign request that an approval is about, for its effective caller. */
export function subjectOf(request: Omit<SignRequest, "bearer_token">, caller: string): ApprovalSubject {
  const { k8s_manifest: manifest } = request;
  return {
    caller,
    end_user: request.end_user,
    end_user_groups: request.end_user_groups,
    host: request.host,
    target_type: request.target_type,
    role: request.role,
    purpose: request.purpose,
    session_mode: request.session_mode,
    session_max_seconds: request.session_max_seconds,
    command: request.command,
    sudo: request.sudo,
    sudo_user: request.sudo_user,
    pty: request.pty,
    file_transfer: request.file_transfer,
    content_sha256: request.content_sha256,
    content_bytes: request.content_bytes,
    content_head: request.content_head,
    ttl_seconds: request.ttl_seconds,
    public_key: request.public_key.trimEnd().split(" ", 2).join(" "),
    k8s_verb: request.k8s_verb,
    k8s_resource: request.k8s_resource,
    k8s_group: request.k8s_group,
    k8s_namespace: request.k8s_namespace,
    k8s_name: request.k8s_name,
    k8s_manifest_sha256: manifest === "" ? "" : sha256Hex(manifest),
    k8s_force_fields: request.k8s_force_fields,
    reason: request.reason,
  };
}

/** The first line under the digest of a request. It keeps other JSON from having the same digest. */
const SUBJECT_DOMAIN = "gateway approval request v1\n";

/** SHA-256 of a request in hex: over a fixed line and the canonical JSON of the request. */
export function digestSubject(subject: ApprovalSubject): string {
  return sha256Hex(SUBJECT_DOMAIN + canonicalJson(subject));
}

/** SHA-256 of a text in UTF-8, hex. */
export function sha256Hex(text: string): string {
  return createHash("sha256").update(text, "utf8").digest("hex");
}

/**
 * JSON in the canonical form of RFC 8785, for flat objects of texts, integers, flags and lists of texts: members in
 * the order of their names, no spaces. Lone surrogates are escaped, because UTF-8 would make them all equal.
 */
function canonicalJson(value: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1)));
}
