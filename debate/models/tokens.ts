import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { ifThere, writeFileAtomic } from "@gateway/shared/files";
import * as z from "@zod/zod";
import { dirname } from "node:path";
import { ModelError } from "../engine/ports.ts";
import { exchangeJson } from "./exchange.ts";

/** The source of the token for the HTTP requests to one provider. */
export interface TokenSource {
  /** Empty: the provider needs no token. */
  token(signal: AbortSignal): Promise<string>;
  /** Called when the provider has rejected a token. Returns whether a retry may use a new token. */
  refused(token: string): boolean;
  /** The operator's remedy for a rejected token, as the end of a sentence. */
  readonly remedy: string;
}

/** The headers that carry a token. */
export function tokenHeaders(token: string, header: string): Readonly<Record<string, string>> {
  if (token === "") return {};
  return { [header]: header.toLowerCase() === "authorization" ? `Bearer ${token}` : token };
}

/** The unchanged token of a variable. Empty: the token is missing. Without a variable, no token is sent. */
export function fixedToken(variable: string | undefined, token: string): TokenSource {
  return {
    token: () => new Promise((resolve) => resolve(variable === undefined ? "" : checkToken(variable, token))),
    refused: () => false,
    remedy: variable === undefined ? "set its key_variable in MODEL_PROVIDERS" : `check ${variable}`,
  };
}

export function checkToken(variable: string, token: string): string {
  if (token === "") throw new ModelError("auth", `there is no access token; set ${variable}`);
  if (!isToken(token)) throw new ModelError("auth", `${variable} does not contain a valid token`);
  return token;
}

export function isToken(text: string): boolean {
  return /^[\x21-\x7e]{1,4096}$/.test(text);
}

/** The start of a token, so that its owner can recognize it; empty for a short token. */
export function tokenPreview(token: string): string {
  return token.length < 20 ? "…" : `${token.slice(0, 4)}…`;
}

/** The token; `undefined` when the file does not exist or is empty. */
export async function readTokenFile(path: string): Promise<string | undefined> {
  const text = await ifThere(Deno.readTextFile(path)).catch((cause) => {
    throw new AppError("invalid_config", `Cannot read the token file ${JSON.stringify(path)}`, { cause });
  });
  const token = text?.trim() || undefined;
  if (token === undefined || isToken(token)) return token;
  throw new AppError("invalid_config", `The token file ${JSON.stringify(path)} contains no valid token`);
}

export async function writeTokenFile(path: string, token: string): Promise<void> {
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeFileAtomic(path, new TextEncoder().encode(`${token}\n`), { mode: 0o600 });
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot write the token file ${JSON.stringify(path)}`, { cause });
  }
}

export interface SessionOptions {
  /** The URL that issues session tokens; empty: requests carry the access token itself. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The current access token; `undefined` if there is none. */
  accessToken(): Promise<string | undefined>;
  readonly remedy: string;
  readonly fetch: typeof fetch;
  readonly clock: Clock;
}

interface Session {
  readonly token: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

const MARGIN_MS = 60_000;
/** The lifetime of a session if the provider does not state one. */
const ASSUMED_MS = 1_500_000;
const NOTHING = { isConfigured: false, isValid: false, expiresInSeconds: undefined, problem: undefined };

const sessionAnswer = z.looseObject({
  // Accept only characters that are safe in a header.
  token: z.string().regex(/^[\x21-\x7e]{1,16384}$/),
  expires_at: z.int().positive().optional().catch(undefined),
});

/** Exchanges a long-lived access token for short-lived session tokens. */
export function sessionTokens({ url, headers, accessToken, remedy, fetch, clock }: SessionOptions) {
  let session: (Session & { readonly of: string }) | undefined;
  let pending: { readonly of: string; readonly session: Promise<Session> } | undefined;

  async function open(access: string): Promise<Session> {
    const authorized = { ...headers, authorization: `token ${access}` };
    const { status, body } = await exchangeJson({ fetch, clock, url, headers: authorized });
    if (status === 401 || status === 403 || status === 404) {
      const text = `the provider rejected the access token (HTTP ${status}); ${remedy}`;
      throw new ModelError("auth", text);
    }
    const answer = sessionAnswer.safeParse(body).data;
    if (status !== 200 || answer === undefined) {
      throw new ModelError("server", `the provider did not issue a session (HTTP ${status})`);
    }
    const { token, expires_at } = answer;
    const endSeconds = Number(/(?:^|;)exp=(\d{1,12})(?:;|$)/.exec(token)?.[1] ?? expires_at);
    return { token, expiresAt: Number.isNaN(endSeconds) ? clock.now() + ASSUMED_MS : endSeconds * 1000 };
  }

  /** Concurrent callers share one exchange. It continues if one of them cancels. */
  function sessionFor(access: string): Promise<Session> {
    const isUsable = session?.of === access && session.expiresAt - clock.now() >= MARGIN_MS;
    if (session !== undefined && isUsable) return Promise.resolve(session);
    if (pending?.of === access) return pending.session;
    const opening = { of: access, session: open(access) };
    pending = opening;
    const settle = (opened?: Session) => {
      if (pending !== opening) return;
      pending = undefined;
      if (opened !== undefined) session = { ...opened, of: access };
    };
    opening.session.then(settle, () => settle());
    return opening.session;
  }

  async function current(): Promise<string> {
    const access = await accessToken();
    if (access === undefined) throw new ModelError("auth", `there is no access token; ${remedy}`);
    return url === "" ? access : (await sessionFor(access)).token;
  }

  return {
    remedy,
    async token(signal: AbortSignal): Promise<string> {
      signal.throwIfAborted();
      return await current();
    },
    refused(token: string): boolean {
      if (session?.token !== token) return session !== undefined;
      session = undefined;
      return true;
    },
    /** Reports the state of the session. Requests a session if there is none. */
    async status() {
      try {
        if (await accessToken() === undefined) {
          return { ...NOTHING, problem: `There is no access token; ${remedy}` };
        }
        await current();
        const restMs = session && session.expiresAt - clock.now();
        const expiresInSeconds = restMs && Math.max(0, Math.floor(restMs / 1000));
        return { isConfigured: true, isValid: true, expiresInSeconds, problem: undefined };
      } catch (error) {
        const problem = error instanceof ModelError ? error.message : "the stored token cannot be read";
        return { ...NOTHING, isConfigured: true, problem: `No session: ${problem}` };
      }
    },
  };
}
