import { writeFileAtomic } from "@gateway/shared/files";
import { AppError } from "@gateway/shared/errors";
import { dirname } from "node:path";
import { ModelError } from "../engine/model.ts";

/** The access of one provider, per HTTP request. */
export interface TokenSource {
  token(signal: AbortSignal): Promise<string>;
  /** Called when the provider has refused a token. Returns whether there may be a better one now. */
  refused(token: string): boolean;
  /** What an operator can do about a refused token, as the end of a sentence. */
  readonly remedy: string;
}

/** The token of a variable, sent as it is. Empty: there is no token. */
export function fixedToken(variable: string, token: string): TokenSource {
  return {
    token: () => new Promise((resolve) => resolve(checkToken(variable, token))),
    refused: () => false,
    remedy: `check ${variable}`,
  };
}

export function checkToken(variable: string, token: string): string {
  if (token === "") throw new ModelError("auth", `there is no access token; set ${variable}`);
  if (!isToken(token)) throw new ModelError("auth", `${variable} does not hold a valid token`);
  return token;
}

const MAX_LENGTH = 4096;

/** The token; `undefined` when the file does not exist or is empty. */
export async function readTokenFile(path: string): Promise<string | undefined> {
  let text: string;
  try {
    text = (await Deno.readTextFile(path)).trim();
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return undefined;
    throw new AppError("invalid_config", `Cannot read the token file ${JSON.stringify(path)}`, { cause });
  }
  if (text === "") return undefined;
  if (!isToken(text)) {
    throw new AppError("invalid_config", `The token file ${JSON.stringify(path)} holds no token`);
  }
  return text;
}

/** Stores a token. The folder is created if it is missing. */
export async function writeTokenFile(path: string, token: string): Promise<void> {
  if (!isToken(token)) throw new TypeError("Not a token");
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFileAtomic(path, new TextEncoder().encode(`${token}\n`), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write the token file ${JSON.stringify(path)}`, { cause });
  }
}

export function isToken(text: string): boolean {
  return text.length <= MAX_LENGTH && /^[\x21-\x7e]+$/.test(text);
}
