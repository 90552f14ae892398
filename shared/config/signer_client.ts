/**
 * The `signer` block of a service that asks a signer: where it is, and who the service is to it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signerClientConfig } from "@gateway/shared/config/signer_client";
 *
 * assert.equal(signerClientConfig.safeParse({ url: "http://127.0.0.1" }).success, false);
 * ```
 *
 * @module
 */
import { z } from "@zod/zod";

/** How a service reaches the signer. */
export interface SignerClientConfig {
  /** `https://host:port`. */
  readonly url: string;
  /** PEM file with the service's certificate; its CN is who the service is. */
  readonly client_cert: string;
  /** PEM file with the service's private key. */
  readonly client_key: string;
  /** PEM file with the CA that signed the signer's certificate. */
  readonly ca: string;
}

const path: z.ZodType<string> = z.string().min(1);

/** The keys of the block, for a block that has more. */
export const SIGNER_CLIENT_SHAPE: Readonly<Record<keyof SignerClientConfig, z.ZodType<string>>> = {
  url: z.url({ protocol: /^https$/, error: "must be an https:// URL" }).describe(
    "https://host:port of the signer",
  ),
  client_cert: path.describe("PEM file, the service's certificate; its CN is who the service is"),
  client_key: path.describe("PEM file, the service's private key"),
  ca: path.describe("PEM file, the CA that signed the signer's certificate"),
};

/** Checks a {@linkcode SignerClientConfig}; unknown keys are refused. */
export const signerClientConfig: z.ZodType<SignerClientConfig> = z.strictObject(SIGNER_CLIENT_SHAPE);
