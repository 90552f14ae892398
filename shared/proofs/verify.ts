// Decides whether proofs approve a request. The signer trusts nothing else about a signed approval.
import { createHash, type KeyObject, verify } from "node:crypto";
import { isObject, parseUniqueJson } from "../json.ts";
import { concatBytes, foldIdentity, quoteText } from "../text.ts";
import type { ApprovalProof, ApprovalSubject, ProofKind } from "../wire/mod.ts";
import type { Approver, Approvers } from "./approvers.ts";
import { digestSubject, MAX_DOCUMENT_SECONDS, parseDocument, sha256Hex } from "./document.ts";
import { verifySshsig } from "./sshsig.ts";

/** A decision that an approver has signed for a request. */
export interface SignedDecision {
  readonly approver: string;
  readonly kind: ProofKind;
  /** The fingerprint of the SSH key, or the ID of the passkey. */
  readonly credential: string;
  /** The name of the document, which is valid once. */
  readonly documentSha256: string;
  readonly learnTtlSeconds: number;
  /** Seconds since the epoch. */
  readonly expiresAt: number;
  /** The signature counter of a passkey; 0: it does not count. */
  readonly counter: number;
  readonly proof: ApprovalProof;
}

/** What proofs are verified against. */
interface ProofScope {
  readonly approvers: Approvers;
  readonly subject: ApprovalSubject;
  /** The groups of the host or cluster. */
  readonly groups: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The result: the decisions of different people, or the reason why one proof is rejected. */
type ProofVerdict =
  | { readonly kind: "valid"; readonly decisions: readonly SignedDecision[] }
  | { readonly kind: "invalid"; readonly problem: string };

/** Verifies all proofs of a request. One invalid proof makes the verdict invalid; a second one of a person counts once. */
export function verifyProofs(proofs: readonly ApprovalProof[], scope: ProofScope): ProofVerdict {
  const digest = digestSubject(scope.subject);
  const decisions = new Map<string, SignedDecision>();
  for (const proof of proofs) {
    const result = verifyProof(proof, digest, scope);
    if (typeof result === "string") return { kind: "invalid", problem: result };
    decisions.set(foldIdentity(result.approver), result);
  }
  return { kind: "valid", decisions: [...decisions.values()] };
}

/** Returns the decision, or the reason why the proof is rejected. */
function verifyProof(proof: ApprovalProof, digest: string, scope: ProofScope): SignedDecision | string {
  const { approvers, subject, groups, now } = scope;
  const document = parseDocument(proof.document);
  if (document !== undefined && document.request !== digest) return "the decision is for another request";
  const decision = verifySignedAt(proof, approvers, now);
  if (typeof decision === "string") return decision;
  const [name, approver] = [quoteText(decision.approver), approvers.byName.get(decision.approver)];
  if (approver === undefined) return `${name} is not an approver in the signer's config`;
  if ([subject.caller, subject.end_user].some((each) => approver.identities.has(foldIdentity(each)))) {
    return `${name} is the requester`;
  }
  if (approver.groups !== undefined && !groups.some((group) => approver.groups?.has(group))) {
    return `${name} may not approve requests for this host's groups`;
  }
  return decision;
}

/**
 * Verifies a proof by itself, as of a time in milliseconds since the epoch: its document, approver and signature. Whether
 * it is for a request is not checked. Returns the decision, or the reason why the proof is rejected.
 */
export function verifySignedAt(
  proof: ApprovalProof,
  approvers: Approvers,
  now: number,
): SignedDecision | string {
  const document = parseDocument(proof.document);
  if (document === undefined) return "the decision document is not of version 1";
  if (document.installation !== approvers.installation) return "the decision is for another installation";
  const secondsLeft = document.expires_at - now / 1000;
  // An unreadable time of a record is NaN, which must count as expired.
  if (!(secondsLeft >= 0)) return "the decision has expired";
  if (secondsLeft > MAX_DOCUMENT_SECONDS) return "the decision is valid for more than a day";
  const name = quoteText(document.approver);
  const approver = approvers.byName.get(document.approver);
  if (approver === undefined) return `${name} is not an approver in the signer's config`;
  const signed = proof.kind === "ssh"
    ? verifyKeyProof(proof, approver)
    : verifyPasskeyProof(proof, approver, approvers);
  if (typeof signed === "string") return `the signature of ${name} is not valid: ${signed}`;
  return {
    approver: approver.name,
    kind: proof.kind,
    ...signed,
    documentSha256: sha256Hex(proof.document),
    learnTtlSeconds: document.learn_ttl_seconds,
    expiresAt: document.expires_at,
    proof,
  };
}

type Signed = Pick<SignedDecision, "credential" | "counter">;

function verifyKeyProof(
  { document, signature }: Extract<ApprovalProof, { readonly kind: "ssh" }>,
  { credentials }: Approver,
): Signed | string {
  const publicKey = verifySshsig(decode(signature), document);
  if (publicKey === undefined) return "not an SSH signature of the document";
  const credential = credentials.get(publicKey.toBase64());
  return credential?.kind === "ssh"
    ? { credential: credential.name, counter: 0 }
    : "the SSH key is not one of the approver";
}

const FLAGS = { userPresent: 1, userVerified: 4 } as const;
/** The hash of the relying party, the flags, the counter (WebAuthn, section 6.1). */
const MIN_AUTHENTICATOR_DATA = 37;

function verifyPasskeyProof(
  proof: Extract<ApprovalProof, { readonly kind: "passkey" }>,
  { credentials }: Approver,
  { rpId, origins }: Approvers,
): Signed | string {
  const credential = credentials.get(proof.credential_id);
  if (credential?.kind !== "passkey") return "the passkey is not one of the approver";
  const client = decode(proof.client_data);
  const problem = findClientProblem(client, proof.document, origins);
  if (problem !== undefined) return problem;
  const data = decode(proof.authenticator_data);
  if (data.length < MIN_AUTHENTICATOR_DATA) return "the authenticator data is too short";
  if (!sha256(rpId).equals(data.subarray(0, 32))) return "the passkey signed for another domain";
  const flags = data[32] ?? 0;
  if ((flags & FLAGS.userPresent) === 0) return "nobody was present";
  if ((flags & FLAGS.userVerified) === 0) return "the passkey did not verify its user";
  const signed = concatBytes([data, sha256(client)]);
  if (!verifyWith(credential.key, signed, decode(proof.signature))) return "not a signature of the document";
  return { credential: credential.name, counter: new DataView(data.buffer, data.byteOffset).getUint32(33) };
}

/** Checks `clientDataJSON` (WebAuthn, section 7.2). */
function findClientProblem(
  client: Uint8Array,
  document: string,
  origins: ReadonlySet<string>,
): string | undefined {
  let fields: unknown;
  try {
    fields = parseUniqueJson(new TextDecoder("utf-8", { fatal: true }).decode(client));
  } catch {
    // The next check rejects it.
  }
  if (!isObject(fields)) return "the client data is not JSON";
  if (fields["type"] !== "webauthn.get") return "it is not an assertion";
  const challenge = sha256(document).toBase64({ alphabet: "base64url", omitPadding: true });
  if (fields["challenge"] !== challenge) return "the challenge is not the digest of the document";
  if (typeof fields["origin"] !== "string" || !origins.has(fields["origin"])) {
    return "it was made on another site";
  }
  const { crossOrigin = false, topOrigin } = fields;
  return crossOrigin === false && topOrigin === undefined ? undefined : "it was made in another site's frame";
}

function verifyWith(key: KeyObject, data: Uint8Array, signature: Uint8Array): boolean {
  try {
    return verify(key.asymmetricKeyType === "ed25519" ? null : "sha256", data, key, signature);
  } catch {
    // A malformed signature.
    return false;
  }
}

/** The schema accepts only these characters. A length that base64 cannot have gives no bytes, which nothing signs. */
function decode(base64url: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(base64url, { alphabet: "base64url" });
  } catch {
    return new Uint8Array();
  }
}

function sha256(data: string | Uint8Array) {
  return createHash("sha256").update(data).digest();
}
