import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { PasskeyConfig } from "../policy/mod.ts";
import { type DecisionDocument, digestSubject, formatDocument } from "../proofs/document.ts";
import { APPROVAL_NAMESPACE } from "../proofs/sshsig.ts";
import {
  decodeKeyBlob,
  ed25519PublicKey,
  importEd25519Seed,
  signData,
  signSshsig,
  type SshSigner,
} from "../ssh/keys.ts";
import { concatBytes } from "../text.ts";
import type { ApprovalProof, ApprovalSubject } from "../wire/mod.ts";

/** An SSH key that can sign, with its authorized_keys line. */
export interface ApproverKey extends SshSigner {
  readonly line: string;
}

/** An approver's SSH key from a seed of one repeated byte, with its authorized_keys line. */
export function approverKey(byte: number): ApproverKey {
  const seed = new Uint8Array(32).fill(byte);
  const publicKey = ed25519PublicKey(seed);
  const [key, parts] = [importEd25519Seed(seed), decodeKeyBlob(publicKey)];
  const signer = { publicKey, sign: (data: Uint8Array) => signData(key, parts, data) };
  return { ...signer, line: `ssh-ed25519 ${publicKey.toBase64()} test` };
}

/** A decision document with these changes. */
export function decisionText(
  subject: ApprovalSubject,
  changes: Partial<Record<keyof DecisionDocument, unknown>>,
): string {
  return formatDocument({
    v: 1,
    installation: "test-installation",
    request: digestSubject(subject),
    approver: "ann",
    decision: "approve",
    learn_ttl_seconds: 0,
    uses: 1,
    expires_at: 1_700_000_600,
    nonce: "0".repeat(32),
    ...changes as Partial<DecisionDocument>,
  });
}

export function sshProof(
  document: string,
  key: SshSigner,
  namespace = APPROVAL_NAMESPACE,
): ApprovalProof {
  const signature = signSshsig(key, namespace, new TextEncoder().encode(document));
  return { kind: "ssh", document, signature: toBase64url(signature) };
}

/** A passkey in an authenticator. */
export interface TestPasskey {
  readonly id: string;
  readonly privateKey: KeyObject;
  readonly config: PasskeyConfig;
}

/** A passkey, as an authenticator creates it. */
export function createPasskey(id: string): TestPasskey {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const der = publicKey.export({ format: "der", type: "spki" });
  return { id, privateKey, config: { id, public_key: toBase64url(der) } };
}

/** What an authenticator and a browser put into an assertion. */
export interface AssertionChanges {
  readonly rpId?: string;
  readonly flags?: number;
  readonly counter?: number;
  readonly client?: Readonly<Record<string, unknown>>;
}

export function passkeyProof(
  document: string,
  passkey: Pick<TestPasskey, "id" | "privateKey">,
  { rpId = "approve.test", flags = 5, counter = 0, client = {} }: AssertionChanges = {},
): ApprovalProof {
  const data = new Uint8Array(37);
  data.set(sha256(rpId));
  data[32] = flags;
  new DataView(data.buffer).setUint32(33, counter);
  const clientData = new TextEncoder().encode(JSON.stringify({
    type: "webauthn.get",
    challenge: toBase64url(sha256(document)),
    origin: "https://approve.test",
    crossOrigin: false,
    ...client,
  }));
  const signature = sign("sha256", concatBytes([data, sha256(clientData)]), passkey.privateKey);
  return {
    kind: "passkey",
    document,
    credential_id: passkey.id,
    authenticator_data: toBase64url(data),
    client_data: toBase64url(clientData),
    signature: toBase64url(signature),
  };
}

function sha256(data: string | Uint8Array): Uint8Array {
  return createHash("sha256").update(data).digest();
}

function toBase64url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}
