/**
 * The `signer` block of a service that asks a signer: where it is, and who the service is to it.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signerClientConfig } from "@gateway/shared/config";
 *
 * assert.equal(signerClientConfig.safeParse({ url: "http://127.0.0.1" }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** How a service reaches the signer. */
export interface SignerClientConfig {
  /** `https://host:port`; absent where there are several. */
  readonly url?: string;
  /** Of several that share a database, each `https://host:port`. */
  readonly urls?: readonly string[];
  /** PEM file with the service's certificate; its CN is who the service is. */
  readonly client_cert: string;
  /** PEM file with the service's private key. */
  readonly client_key: string;
  /** PEM file with the CA that signed the signer's certificate. */
  readonly ca: string;
}

const path: z.ZodType<string> = z.string().min(1);
const url = z.url({ protocol: /^https$/, error: "must be an https:// URL" });
/** Each is looked at every second. */
const MOST_URLS = 16;

/** The keys of the block, each with its check. */
interface SignerClientShape {
  readonly url: z.ZodExactOptional<z.ZodURL>;
  readonly urls: z.ZodExactOptional<z.ZodArray<z.ZodURL>>;
  readonly client_cert: z.ZodType<string>;
  readonly client_key: z.ZodType<string>;
  readonly ca: z.ZodType<string>;
}

/** The keys of the block, for a block that has more; {@linkcode findUrlProblems} belongs to them. */
export const SIGNER_CLIENT_SHAPE: SignerClientShape = {
  url: url.exactOptional().describe("https://host:port of the signer"),
  urls: z.array(url).min(1).max(MOST_URLS).exactOptional().describe(
    "instead of url, several that share a database, each https://host:port: one that does not answer is passed over",
  ),
  client_cert: path.describe("PEM file, the service's certificate; its CN is who the service is"),
  client_key: path.describe("PEM file, the service's private key"),
  ca: path.describe("PEM file, the CA that signed the signer's certificate"),
};

/** What is wrong with which signers a block names: each with its key, empty for the block. */
export function findUrlProblems(
  { url, urls }: Pick<SignerClientConfig, "url" | "urls">,
): readonly (readonly [string, string])[] {
  if (urls === undefined) return url === undefined ? [["", "names neither url nor urls"]] : [];
  const problems: [string, string][] = [];
  if (url !== undefined) problems.push(["urls", "stands beside url: name all in urls"]);
  const distinct = new Set(urls.map((each) => new URL(each).href));
  if (distinct.size < urls.length) problems.push(["urls", "names one of them twice"]);
  return problems;
}

/** Checks a {@linkcode SignerClientConfig}; unknown keys are refused. */
export const signerClientConfig: z.ZodType<SignerClientConfig> = z.strictObject(SIGNER_CLIENT_SHAPE)
  .superRefine((signer, context) => {
    for (const [key, message] of findUrlProblems(signer)) {
      context.addIssue({ code: "custom", path: key === "" ? [] : [key], message });
    }
  });

/** All that may be asked, one where there is one. */
export function signerUrls({ url, urls }: Pick<SignerClientConfig, "url" | "urls">): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}
