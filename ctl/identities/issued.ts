import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { isTrusted, type TrustedAuthority } from "./authority.ts";
import { readCertificateFacts } from "./certificate_facts.ts";
import type { IdentityKind } from "./kinds.ts";

interface SoughtCertificate {
  readonly kind: IdentityKind;
  readonly name: string;
  readonly authority: TrustedAuthority;
  readonly publicKey: { readonly rawData: ArrayBuffer };
}

/**
 * The certificate that an earlier attempt issued for the same key and did not put everywhere.
 *
 * @returns PEM; `undefined` when none of the files is there
 * @throws {AppError} `conflict` when a file is another one's
 */
export async function findIssued(
  paths: readonly string[],
  sought: SoughtCertificate,
): Promise<string | undefined> {
  let found: string | undefined;
  for (const path of paths) {
    const pem = await ifThere(readRegularText(path));
    if (pem === undefined) continue;
    if (!await isSought(pem, sought) || (found !== undefined && found !== pem)) {
      throw new AppError(
        "conflict",
        `There is ${quoteText(path)}, which is no certificate of this CA for ${
          quoteText(sought.name)
        } and its ` +
          "key; broker-ctl identity renew makes one last longer",
      );
    }
    found = pem;
  }
  return found;
}

async function isSought(
  pem: string,
  { kind, name, authority, publicKey }: SoughtCertificate,
): Promise<boolean> {
  const { readLeaf } = await import("./x509.ts");
  try {
    const facts = readCertificateFacts(pem);
    const key = new Uint8Array(readLeaf(pem).publicKey.rawData).toBase64();
    return facts.kind === kind && facts.commonName === name && isTrusted(pem, authority) &&
      key === new Uint8Array(publicKey.rawData).toBase64();
  } catch {
    return false;
  }
}
