import { createPublicKey, verify } from "node:crypto";
import { BlockList, isIPv6 } from "node:net";
import {
  type Certificate,
  CERTIFICATE_ALGORITHM,
  decodeCertificate,
  formatPublicKey,
  parsePublicKey,
  SshReader,
  verifyCertificateSignature,
} from "@gateway/shared/ssh";

const KNOWN_OPTIONS: readonly string[] = ["force-command", "source-address"];

export interface LoginAttempt {
  readonly user: string;
  /** The principals that may log in as that user. */
  readonly principals: readonly string[];
  readonly algorithm: string;
  readonly certificate: Uint8Array;
  /** The signature blob over `signed`. Absent if the client only queries whether the key is accepted. */
  readonly signature: Uint8Array | undefined;
  readonly signed: Uint8Array | undefined;
  readonly caPublicKeyLine: string;
  readonly remoteAddress: string;
  readonly nowSeconds: number;
}

/** The certificate's permissions, or the reason for its rejection. */
export type LoginDecision =
  | { readonly kind: "refused"; readonly reason: string }
  | {
    readonly kind: "allowed";
    readonly forceCommand: string | undefined;
    readonly pty: boolean;
    readonly forwarding: boolean;
  };

/** Decides like sshd (PROTOCOL.certkeys, sshd(8)). */
export function decideLogin(attempt: LoginAttempt): LoginDecision {
  if (attempt.algorithm !== CERTIFICATE_ALGORITHM) return refused("not an Ed25519 certificate");
  let certificate: Certificate;
  try {
    certificate = decodeCertificate(attempt.certificate);
  } catch (error) {
    return refused(String(error));
  }
  const reason = findFlaw(attempt, certificate);
  if (reason !== undefined) return refused(reason);
  return {
    kind: "allowed",
    forceCommand: certificate.criticalOptions["force-command"],
    pty: certificate.extensions.includes("permit-pty"),
    forwarding: certificate.extensions.includes("permit-port-forwarding"),
  };
}

function findFlaw(attempt: LoginAttempt, certificate: Certificate): string | undefined {
  const trusted = parsePublicKey(attempt.caPublicKeyLine);
  const signer = formatPublicKey(trusted.algorithm, certificate.caPublicKey);
  if (signer !== formatPublicKey(trusted.algorithm, trusted.blob)) return "signed by another authority";
  if (!verifyCertificateSignature(certificate)) return "wrong signature of the authority";
  if (certificate.kind !== "user") return "not a user certificate";
  if (attempt.nowSeconds < certificate.validAfter) return "not valid yet";
  if (attempt.nowSeconds >= certificate.validBefore) return "no longer valid";
  if (!certificate.principals.some((principal) => attempt.principals.includes(principal))) {
    return `no principal for ${attempt.user}`;
  }
  const unknown = Object.keys(certificate.criticalOptions).find((name) => !KNOWN_OPTIONS.includes(name));
  if (unknown !== undefined) return `unknown critical option ${unknown}`;
  const sources = certificate.criticalOptions["source-address"];
  if (sources !== undefined && !isWithin(attempt.remoteAddress, sources)) return "not from this address";
  if (attempt.signature === undefined || attempt.signed === undefined) return undefined;
  return isSignedBy(certificate.publicKey, attempt.signature, attempt.signed)
    ? undefined
    : "wrong signature of the key";
}

/** Whether a signature blob (`string` algorithm, `string` signature) is from an Ed25519 key. */
function isSignedBy(point: Uint8Array, signature: Uint8Array, data: Uint8Array): boolean {
  const x = point.toBase64({ alphabet: "base64url", omitPadding: true });
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  try {
    const reader = new SshReader(signature);
    if (reader.text() !== "ssh-ed25519") return false;
    const bytes = reader.string();
    reader.end();
    return verify(null, data, key, bytes);
  } catch {
    return false;
  }
}

/** Whether an address is in a list of networks such as `10.0.0.0/8,::1`. */
function isWithin(address: string, networks: string): boolean {
  const list = new BlockList();
  for (const network of networks.split(",")) {
    const [base = "", prefix] = network.trim().split("/");
    const family = isIPv6(base) ? "ipv6" : "ipv4";
    if (prefix === undefined) list.addAddress(base, family);
    else list.addSubnet(base, Number(prefix), family);
  }
  return list.check(address, isIPv6(address) ? "ipv6" : "ipv4");
}

function refused(reason: string): LoginDecision {
  return { kind: "refused", reason };
}
