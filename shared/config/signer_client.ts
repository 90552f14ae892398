/**
 * The `signer` block of a config: the address of the signer, and the identity of the service.
 *
 * @module
 */
import * as z from "@zod/zod";

/** The address of the signer, and PEM files. */
export interface SignerClientConfig {
  readonly url?: string;
  /** Instead of `url`, several signers that share a database. */
  readonly urls?: readonly string[];
  readonly client_cert: string;
  readonly client_key: string;
  readonly ca: string;
}

const path: z.ZodType<string> = z.string().min(1);
const url = z.url({ protocol: /^https$/, error: "must be an https:// URL" });
/** Each is probed every second. */
const MOST_URLS = 16;

interface SignerClientShape {
  readonly url: z.ZodExactOptional<z.ZodURL>;
  readonly urls: z.ZodExactOptional<z.ZodArray<z.ZodURL>>;
  readonly client_cert: z.ZodType<string>;
  readonly client_key: z.ZodType<string>;
  readonly ca: z.ZodType<string>;
}

/** The keys of the block, for a block with more keys. It needs {@linkcode findUrlProblems}, too. */
export const SIGNER_CLIENT_SHAPE: SignerClientShape = {
  url: url.exactOptional().describe("https://host:port of the signer"),
  urls: z.array(url).min(1).max(MOST_URLS).exactOptional().describe(
    "instead of url, several that share a database, each https://host:port: one that does not answer is passed over",
  ),
  client_cert: path.describe("PEM file, the service's certificate; its CN is who the service is"),
  client_key: path.describe("PEM file, the service's private key"),
  ca: path.describe("PEM file, the CA that signed the signer's certificate"),
};

/** Problems of the addresses, each with its key; empty for the block. */
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

/** Checks a block. Unknown keys are rejected. */
export const signerClientConfig: z.ZodType<SignerClientConfig> = z.strictObject(SIGNER_CLIENT_SHAPE)
  .superRefine((signer, context) => {
    for (const [key, message] of findUrlProblems(signer)) {
      context.addIssue({ code: "custom", path: key === "" ? [] : [key], message });
    }
  });

/** The addresses of all signers. */
export function signerUrls({ url, urls }: Pick<SignerClientConfig, "url" | "urls">): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}
