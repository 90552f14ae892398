/**
 * Describes a certificate in the format of `ssh-keygen -L` (ssh-keygen(1)).
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import type { Certificate } from "@gateway/shared/ssh";
 * import { describeCertificate } from "./describe_certificate.ts";
 *
 * const show = (certificate: Certificate) => describeCertificate(certificate, { title: "web01-cert.pub" });
 * assert.equal(typeof show, "function");
 * ```
 *
 * @module
 */

import { visibleText } from "@gateway/shared/text";
import { type Certificate, CERTIFICATE_ALGORITHM, fingerprint, SshReader } from "@gateway/shared/ssh";
import { decodeKeyBlob, encodeKeyBlob } from "../../shared/ssh/keys.ts";

export interface DescribeOptions {
  /** File name for the first line, which ends with a colon. If absent, there is no such line. */
  readonly title?: string;
  /** Formats seconds since the epoch. The default is UTC, like ssh-keygen with `TZ=UTC`. */
  readonly formatTime?: (seconds: number) => string;
}

const FIELD = " ".repeat(8);
const ITEM = " ".repeat(16);
const TEXT_OPTIONS: readonly string[] = ["force-command", "source-address"];
const FLAG_OPTIONS: readonly string[] = ["verify-required"];
const FLAG_EXTENSIONS: readonly string[] = [
  "no-touch-required",
  "permit-X11-forwarding",
  "permit-agent-forwarding",
  "permit-port-forwarding",
  "permit-pty",
  "permit-user-rc",
];
/** Last second of the year 9999. Later years have more than four digits in ISO 8601. */
const LAST_SECOND = 253_402_300_799;

/**
 * Returns the exact output of `ssh-keygen -L`, except that control and invisible characters in the certificate are
 * escaped (`\x1b`), because they could fake lines or control the terminal.
 *
 * @returns lines, each with a line end
 */
export function describeCertificate(certificate: Certificate, options: DescribeOptions = {}): string {
  const { title, formatTime = formatUtc } = options;
  const key = encodeKeyBlob({ kind: "ed25519", point: certificate.publicKey });
  const ca = certificate.caPublicKey;
  const using = visibleText(certificate.signatureAlgorithm);
  const lines = [
    ...(title === undefined ? [] : [`${visibleText(title)}:`]),
    `${FIELD}Type: ${CERTIFICATE_ALGORITHM} ${certificate.kind} certificate`,
    `${FIELD}Public key: ED25519-CERT ${fingerprint(key)}`,
    `${FIELD}Signing CA: ${decodeKeyBlob(ca).kind.toUpperCase()} ${fingerprint(ca)} (using ${using})`,
    `${FIELD}Key ID: "${visibleText(certificate.keyId)}"`,
    `${FIELD}Serial: ${certificate.serial}`,
    `${FIELD}Valid: ${describeValidity(certificate, formatTime)}`,
    ...describeList("Principals", certificate.principals.map(visibleText)),
    ...describeList("Critical Options", describeOptions(certificate.criticalOptionData, describeCritical)),
    ...describeList("Extensions", describeOptions(certificate.extensionData, describeExtension)),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function describeValidity(
  { validAfter, validBefore }: Certificate,
  formatTime: (seconds: number) => string,
): string {
  if (validAfter === 0) return validBefore === Infinity ? "forever" : `before ${formatTime(validBefore)}`;
  const from = formatTime(validAfter);
  return validBefore === Infinity ? `after ${from}` : `from ${from} to ${formatTime(validBefore)}`;
}

function describeList(name: string, items: readonly string[]): readonly string[] {
  if (items.length === 0) return [`${FIELD}${name}: (none)`];
  // OpenSSH writes a space at the end of this line.
  return [`${FIELD}${name}: `, ...items.map((item) => `${ITEM}${item}`)];
}

function describeOptions(
  options: Certificate["criticalOptionData"],
  describe: (name: string, data: Uint8Array) => string,
): readonly string[] {
  return [...options].map(([name, data]) => visibleText(`${name}${describe(name, data)}`));
}

function describeCritical(name: string, data: Uint8Array): string {
  if (TEXT_OPTIONS.includes(name)) return ` ${new SshReader(data).text()}`;
  return FLAG_OPTIONS.includes(name) ? "" : describeUnknown(data);
}

function describeExtension(name: string, data: Uint8Array): string {
  return FLAG_EXTENSIONS.includes(name) ? "" : describeUnknown(data);
}

function describeUnknown(data: Uint8Array): string {
  if (data.length === 0) return " UNKNOWN FLAG OPTION";
  return ` UNKNOWN OPTION: ${data.toHex()} (len ${data.length})`;
}

/** Returns `2026-01-02T03:04:05`, or `@` and the seconds for a year with more than four digits. */
function formatUtc(seconds: number): string {
  if (seconds > LAST_SECOND) return `@${seconds}`;
  return new Date(seconds * 1000).toISOString().slice(0, "2026-01-02T03:04:05".length);
}
