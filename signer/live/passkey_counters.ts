import type { SignedDecision } from "@gateway/shared/proofs";

/**
 * The signature counters of passkeys since the start of this process (WebAuthn, section 6.1.1). Most passkeys do not
 * count.
 */
export class PasskeyCounters {
  readonly #seen = new Map<string, { highest: number; readonly documents: Map<string, number> }>();

  /** Whether this is a known assertion, or a newer one than all known ones. */
  accepts({ kind, credential, counter, documentSha256, expiresAt }: SignedDecision): boolean {
    if (kind !== "passkey" || counter === 0 && !this.#seen.has(credential)) return true;
    const seen = this.#seen.get(credential) ?? { highest: 0, documents: new Map<string, number>() };
    this.#seen.set(credential, seen);
    if (seen.documents.has(documentSha256)) return true;
    if (counter <= seen.highest) return false;
    seen.highest = counter;
    for (const [document, end] of seen.documents) {
      if (end < expiresAt - 2 * 86_400) seen.documents.delete(document);
    }
    seen.documents.set(documentSha256, expiresAt);
    return true;
  }
}
