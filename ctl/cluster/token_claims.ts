import * as z from "@zod/zod";
import { parseJson } from "@gateway/shared/json";

/** What a token of a ServiceAccount says of itself. Its signature is the API server's to check. */
interface TokenClaims {
  /** Its id; empty for none. */
  readonly jti: string;
  /** When it ends, in seconds since the epoch; absent: never. */
  readonly exp?: number | undefined;
}

const claims: z.ZodType<TokenClaims> = z.object({
  jti: z.string().default(""),
  exp: z.number().optional(),
});

/** Reads a token; undefined for what is not a JSON Web Token. */
export function readClaims(token: string): TokenClaims | undefined {
  const [, payload = "", signature] = token.split(".");
  if (signature === undefined) return undefined;
  try {
    const text = new TextDecoder().decode(Uint8Array.fromBase64(payload, { alphabet: "base64url" }));
    return claims.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}
