import assert from "node:assert/strict";
import { problemResponse } from "@gateway/shared/http";
import { LoginClient } from "@gateway/shared/oidc/login";
import { createIssuerKey, createTokenIssuer } from "@gateway/shared/testing";
import { controlPlaneConfig } from "../config/config.ts";
import { createSignIn } from "../sign_in/sign_in.ts";
import { CONFIG, startGated } from "./memory_control_plane.ts";

export const OUR_URL = "https://approve.example";
export const ISSUER = "https://id.example/realm";
/** Texts that no page and no record may contain. */
export const SECRETS = ["secret-of-client", "the-code", "access-token"];
export const ANN = "ann@example.com";
const CLAIMS = { aud: "gateway", email: ANN, email_verified: true, groups: ["Staff", "Approvers EU"] };
export const [KEY, OTHER_KEY] = await Promise.all([createIssuerKey("k1"), createIssuerKey("k1")]);

export const NAVIGATION = { accept: "text/html", "sec-fetch-site": "none", "sec-fetch-mode": "navigate" };
export const OUR_FORM = { ...NAVIGATION, "sec-fetch-site": "same-origin", origin: "null" };

type Scene = Awaited<ReturnType<typeof startSignIn>>;
type Answer = (
  request: Request,
  address: string,
) => Promise<Pick<Response, "status" | "headers"> & { readonly text: string }>;

/** What a test can change. */
interface Provider {
  /** Claims that replace those of the next ID token. */
  claims: object;
  nonce: string | null;
  key: typeof KEY;
  /** The frozen people. */
  frozen: readonly string[];
  codes: number;
}

/** A control plane whose approvers sign in at a provider in memory. */
export async function startSignIn() {
  const ui = {
    url: OUR_URL,
    issuer: ISSUER,
    client_id: "gateway",
    client_secret_file: "s",
    groups: ["Approvers EU"],
  };
  const plane = await startGated({ ui_listen: ":7444", ui });
  const { ui: config } = controlPlaneConfig.parse({ ...CONFIG, ui_listen: ":7444", ui });
  assert.ok(config);
  const issuer = createTokenIssuer(ISSUER, [KEY]);
  issuer.metadata = {
    ...{ authorization_endpoint: `${ISSUER}/auth`, token_endpoint: `${ISSUER}/token` },
    authorization_response_iss_parameter_supported: true,
  };
  const provider: Provider = { claims: {}, nonce: null, key: KEY, frozen: [], codes: 0 };
  const used = new Set<string | null>();
  const fetch: typeof globalThis.fetch = async (input, init) => {
    if (!String(input).endsWith("/token")) return await issuer.fetch(input);
    const form = new URLSearchParams(String(init?.body));
    const isReplay = used.has(form.get("code"));
    used.add(form.get("code"));
    if (isReplay) {
      return Response.json({ error: "invalid_grant", error_description: "the-code" }, { status: 400 });
    }
    const iat = Math.floor(Date.now() / 1000);
    const own = { iss: ISSUER, sub: "1", iat, exp: iat + 600, nonce: provider.nonce };
    const id_token = await issuer.sign({ ...own, ...CLAIMS, ...provider.claims }, provider.key);
    return Response.json({ access_token: "access-token", token_type: "Bearer", id_token });
  };
  const login = new LoginClient({
    ...{ issuer: ISSUER, clientId: "gateway", clientSecret: "secret-of-client", scopes: ["email"], ca: "" },
    redirectUri: `${OUR_URL}/ui/callback`,
  }, { fetch, clock: plane.clock });
  const { reply } = plane.signer;
  plane.signer.reply = (request) => {
    if (request.path !== "/v1/revocations") return reply(request);
    const frozen_at = "2026-11-28T00:00:00Z";
    return { body: provider.frozen.map((value) => ({ kind: "end_user", value, frozen_at })) };
  };
  const random = { bytes: (length: number) => crypto.getRandomValues(new Uint8Array(length)) };
  const gate = createSignIn({ ...plane.pagesAt(OUR_URL), config, login, random });
  const trusted: (string | undefined)[] = [];
  const answer: Answer = async (request, address) => {
    const trust = (name?: string) => void trusted.push(name);
    const response = await gate(request, { address, trust }).catch((error) => problemResponse(error));
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  return { plane, provider, trusted, answer, browser: () => new Browser(answer, provider) };
}

/** A browser that has signed in as ann. */
export async function startSignedIn(): Promise<Scene & { readonly ann: Browser }> {
  const scene = await startSignIn();
  const ann = scene.browser();
  assert.equal((await ann.signIn()).status, 200);
  return { ...scene, ann };
}

/** The cookies of a browser, and its requests. */
export class Browser {
  readonly cookies = new Map<string, string>();
  readonly #answer: Answer;
  readonly #provider: Provider;
  address = "192.0.2.1";

  constructor(answer: Answer, provider: Provider) {
    this.#answer = answer;
    this.#provider = provider;
  }

  get session(): string | undefined {
    return this.cookies.get("__Host-gateway-session");
  }

  async open(path: string, init: RequestInit = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { ...NAVIGATION, cookie, ...init.headers };
    const response = await this.#answer(new Request(OUR_URL + path, { ...init, headers }), this.address);
    for (const line of response.headers.getSetCookie()) {
      const [name = "", value = ""] = line.split(";", 1).join().split("=");
      if (value === "") this.cookies.delete(name);
      else this.cookies.set(name, value);
    }
    return response;
  }

  post(path: string, body = "decision=approve", headers: Record<string, string> = {}) {
    const type = { "content-type": "application/x-www-form-urlencoded" };
    return this.open(path, { method: "POST", body, headers: { ...type, ...OUR_FORM, ...headers } });
  }

  /** Starts a sign-in. @returns the query of the provider's response */
  async start(next = ""): Promise<URLSearchParams> {
    const { headers } = await this.open(`/ui/login?next=${encodeURIComponent(next)}`);
    const asked = new URL(headers.get("location") ?? "").searchParams;
    this.#provider.nonce = asked.get("nonce");
    const code = `the-code-${this.#provider.codes++}`;
    return new URLSearchParams({ code, state: asked.get("state") ?? "", iss: ISSUER });
  }

  finish(query: URLSearchParams) {
    return this.open(`/ui/callback?${query}`, { headers: { "sec-fetch-site": "cross-site" } });
  }

  async signIn(next?: string) {
    return await this.finish(await this.start(next));
  }
}
