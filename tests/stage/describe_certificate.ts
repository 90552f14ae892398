import { visibleText } from "@gateway/shared/text";
import { type Certificate, CERTIFICATE_ALGORITHM, fingerprint, SshReader } from "@gateway/shared/ssh";
import { decodeKeyBlob, encodeKeyBlob } from "../../shared/ssh/keys.ts";

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

/**
 * Returns the output of `TZ=UTC ssh-keygen -L` (ssh-keygen(1)) with control and invisible characters of the
 * certificate escaped. The title is the file name in the first line.
 */
export function describeCertificate(certificate: Certificate, title?: string): string {
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
    `${FIELD}Valid: ${describeValidity(certificate)}`,
    ...describeList("Principals", certificate.principals.map(visibleText)),
    ...describeList("Critical Options", describeOptions(certificate.criticalOptionData, describeCritical)),
    ...describeList("Extensions", describeOptions(certificate.extensionData, describeExtension)),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

function describeValidity({ validAfter, validBefore }: Certificate): string {
  if (validAfter === 0) return validBefore === Infinity ? "forever" : `before ${formatUtc(validBefore)}`;
  const from = formatUtc(validAfter);
  return validBefore === Infinity ? `after ${from}` : `from ${from} to ${formatUtc(validBefore)}`;
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

function formatUtc(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, "2026-01-02T03:04:05".length);
}
