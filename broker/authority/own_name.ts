import { X509Certificate } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import { callerFromCertificate } from "@gateway/shared/http/caller";

/**
 * Who this broker is to the signer: the CN of its certificate.
 *
 * @throws {AppError} `invalid_config` when there is no such name, or more than one
 */
export function ownName(certificatePem: string): string {
  const { subject } = new X509Certificate(certificatePem).toLegacyObject();
  const name = callerFromCertificate(true, subject?.CN);
  if (name !== undefined) return name;
  throw new AppError("invalid_config", "Cannot use signer.client_cert: its subject needs exactly one CN");
}
