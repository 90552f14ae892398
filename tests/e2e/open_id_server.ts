import type { Server } from "node:http";
import { createServer } from "node:https";
// @ts-types="./oidc_provider.d.ts"
import Provider from "oidc-provider";
import { generateKeyPairSync } from "node:crypto";
import { freePort } from "../stage/free_port.ts";

/** The scope that tokens for the frontend carry. */
export const SCOPE = "mcp";

export interface Agent {
  readonly id: string;
  readonly secret: string;
}

export interface OpenIdServerOptions {
  readonly agents: readonly Agent[];
  /** The groups in all tokens. Tests can change them. */
  readonly groups: readonly string[];
  /** The lifetime of access tokens in seconds. */
  readonly tokenSeconds?: number;
  /** A client that signs people in. Their name is their email address. */
  readonly pages?: { readonly id: string; readonly secret: string; readonly redirectUri: string };
  /** The certificate of a provider with TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

/** A real OpenID provider on loopback. It issues JWT access tokens for the requested resource (RFC 8707). */
export class OpenIdServer implements AsyncDisposable {
  readonly issuer: string;
  readonly #server: Server;

  private constructor(issuer: string, server: Server) {
    this.issuer = issuer;
    this.#server = server;
  }

  static async start(options: OpenIdServerOptions): Promise<OpenIdServer> {
    const { agents, groups, tokenSeconds = 600, pages, tls } = options;
    const port = freePort();
    const issuer = `${tls === undefined ? "http" : "https"}://127.0.0.1:${port}`;
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const provider = new Provider(issuer, {
      jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid: "k1", use: "sig", alg: "RS256" }] },
      clients: [
        ...agents.map(({ id, secret }) => ({
          client_id: id,
          client_secret: secret,
          grant_types: ["client_credentials"],
          redirect_uris: [],
          response_types: [],
        })),
        ...pages === undefined ? [] : [
          { client_id: pages.id, client_secret: pages.secret, redirect_uris: [pages.redirectUri] },
        ],
      ],
      ...pages !== undefined && {
        claims: { openid: ["sub", "groups"], email: ["email", "email_verified"] },
        conformIdTokenClaims: false,
        findAccount: (_context: unknown, id: string) => ({
          accountId: id,
          claims: () => ({ sub: id, email: id, email_verified: true, groups: [...groups] }),
        }),
      },
      scopes: ["openid", "offline_access", SCOPE],
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: true },
        registration: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({ scope: SCOPE, accessTokenFormat: "jwt" }),
          useGrantedResource: () => true,
        },
      },
      ttl: { AccessToken: tokenSeconds, ClientCredentials: tokenSeconds },
      extraTokenClaims: () => ({ groups: [...groups] }),
    });
    const server = await new Promise<Server>((resolve) => {
      if (tls === undefined) {
        const listening = provider.listen(port, "127.0.0.1", () => resolve(listening));
      } else {
        const listening = createServer(tls, provider.callback());
        listening.listen(port, "127.0.0.1", () => resolve(listening));
      }
    });
    return new OpenIdServer(issuer, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/**
 * Acts like a human in a browser: signs in, consents, and returns to the client.
 *
 * @returns the URL that the client receives
 */
export async function signIn(authorizationUrl: URL, login: string): Promise<URL> {
  const browser = new Browser();
  const { origin } = authorizationUrl;
  let at = await browser.go(authorizationUrl);
  for (let page = 0; at.origin === origin; page++) {
    if (page > 6) throw new Error(`stuck at ${at.pathname}`);
    const html = await browser.text(at);
    const action = /<form[^>]* action="([^"]+)"/.exec(html)?.[1];
    const prompt = /name="prompt" value="(\w+)"/.exec(html)?.[1];
    if (action === undefined || prompt === undefined) throw new Error(`no form at ${at.pathname}`);
    at = await browser.go(new URL(action, at), new URLSearchParams({ prompt, login, password: "x" }));
  }
  return at;
}

/** A minimal browser with cookies and redirects. */
class Browser {
  readonly #cookies = new Map<string, string>();

  /** Follows redirects to the first page without a redirect, or to another origin. */
  async go(url: URL, form?: URLSearchParams): Promise<URL> {
    let response = await this.#fetch(url, form);
    let at = url;
    for (;;) {
      await response.body?.cancel();
      const location = response.headers.get("location");
      if (location === null) return at;
      at = new URL(location, at);
      if (at.origin !== url.origin) return at;
      response = await this.#fetch(at);
    }
  }

  async text(url: URL): Promise<string> {
    return await (await this.#fetch(url)).text();
  }

  async #fetch(url: URL, form?: URLSearchParams): Promise<Response> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, {
      redirect: "manual",
      headers: { cookie },
      ...(form === undefined ? {} : { method: "POST", body: form }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (name !== undefined && value !== undefined) this.#cookies.set(name, value);
    }
    return response;
  }
}
