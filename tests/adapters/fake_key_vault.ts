import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Agent, createServer } from "node:https";
import { type EscapedKey, escapeKey } from "@gateway/shared/testing";
import { ca, issue } from "./mtls_fixture.ts";
import { signDigest } from "./sign_digest.ts";

export type FakeKeyKind = "P-256" | "P-384" | "P-521" | 2048 | 3072 | 1024;

export type Misbehaviour = (request: IncomingMessage, response: ServerResponse) => void;

/** A key vault with one key name, `ssh-ca`, under https://localhost. */
export interface FakeKeyVault extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** Trusts the fake's certificate and connects all host names to the fake. */
  readonly agent: Agent;
  readonly credential: { getToken(): Promise<{ token: string; expiresOnTimestamp: number }> };
  /** `METHOD /path` of every authorized request, in order. */
  readonly requests: readonly string[];
  rotate(kind: FakeKeyKind): string;
  describe(change: { key?: object; attributes?: object }): void;
  /** The faults of the next authorized requests in order; `undefined` is a correct answer. */
  misbehave(...next: readonly (Misbehaviour | undefined)[]): void;
}

interface Version {
  readonly name: string;
  readonly privateKey: KeyObject;
  readonly jwk: JsonWebKey;
}

/** Data to sign. The signatures of some contain numbers with leading zeros. */
export const SIGNABLE: readonly Uint8Array<ArrayBuffer>[] = Array.from(
  { length: 30 },
  (_, index) => Uint8Array.of(index),
);

export const CLIENT_SECRET = "fake-client-secret";

const TOKEN = "fake-access-token";
/** An answer of the sign-in service with an escaped key. */
export const SIGN_IN_ANSWER: EscapedKey = escapeKey(
  JSON.stringify({ token_type: "Bearer", expires_in: 3600, access_token: TOKEN }),
  "access_token",
);
const LOGIN_HOST = "login.microsoftonline.com";
const DIGEST_BYTES: Readonly<Record<string, number>> = { RS256: 32, ES256: 32, ES384: 48, ES512: 64 };

export async function startKeyVault(kind: FakeKeyKind): Promise<FakeKeyVault> {
  const versions: Version[] = [];
  const requests: string[] = [];
  let change: { key?: object; attributes?: object } = {};
  let queue: readonly (Misbehaviour | undefined)[] = [];

  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = new URL(request.url ?? "", "https://localhost").pathname;
    if (request.headers.host === LOGIN_HOST) {
      const { status, body } = signIn(path, await readText(request));
      return void response.writeHead(status, { "content-type": "application/json" }).end(body);
    }
    if (request.headers.authorization !== `Bearer ${TOKEN}`) return challenge(response);
    requests.push(`${request.method} ${path}`);
    const [misbehaviour, ...rest] = queue;
    queue = rest;
    if (misbehaviour !== undefined) return misbehaviour(request, response);
    const [, name, versionName, operation] = /^\/keys\/([^/]+)\/([^/]*)(?:\/(\w+))?$/.exec(path) ?? [];
    const version = versionName === "" ? versions.at(-1) : versions.find(({ name }) => name === versionName);
    if (name !== "ssh-ca" || version === undefined) {
      return sendJson(response, 404, { error: { code: "KeyNotFound" } });
    }
    const kid = `https://localhost/keys/ssh-ca/${version.name}`;
    if (operation === undefined) {
      const key = { kid, key_ops: ["sign", "verify"], ...version.jwk, ...change.key };
      const attributes = {
        enabled: true,
        created: 1_600_000_000,
        updated: 1_600_000_000,
        ...change.attributes,
      };
      return sendJson(response, 200, { key, attributes });
    }
    const { alg, value } = JSON.parse(await readText(request));
    const digest = Uint8Array.fromBase64(value, { alphabet: "base64url" });
    const signature = signWith(version, alg, digest).toBase64({ alphabet: "base64url", omitPadding: true });
    return sendJson(response, 200, { kid, value: signature });
  };

  const { cert, key } = await issue({
    subject: "CN=vault",
    usage: "server",
    subjectAltNames: ["ca.vault.test", LOGIN_HOST],
  });
  const server = createServer({ cert, key }, (request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  const agent = new Agent({
    ca,
    keepAlive: true,
    lookup: (_host, _options, callback) => callback(null, [{ address: "127.0.0.1", family: 4 }]),
  });
  const vault: FakeKeyVault = {
    url: `https://ca.vault.test:${address.port}`,
    port: address.port,
    agent,
    credential: {
      getToken: () => Promise.resolve({ token: TOKEN, expiresOnTimestamp: Date.now() + 3_600_000 }),
    },
    requests,
    rotate(kind) {
      const name = randomBytes(16).toString("hex");
      versions.push({ name, ...createKey(kind) });
      return name;
    },
    describe: (next) => void (change = next),
    misbehave: (...next) => void (queue = next),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
  vault.rotate(kind);
  return vault;
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** The sign-in service of the cloud, limited to applications with a client secret. */
function signIn(path: string, form: string): { readonly status: number; readonly body: string } {
  const base = `https://${LOGIN_HOST}/tenant-1`;
  if (path === "/tenant-1/v2.0/.well-known/openid-configuration") {
    const [authorization_endpoint, token_endpoint] = [`${base}/authorize`, `${base}/oauth2/v2.0/token`];
    const body = { issuer: `${base}/v2.0`, authorization_endpoint, token_endpoint };
    return { status: 200, body: JSON.stringify(body) };
  }
  const fields = new URLSearchParams(form);
  const isRight = path === "/tenant-1/oauth2/v2.0/token" && fields.get("client_id") === "client-1" &&
    fields.get("client_secret") === CLIENT_SECRET;
  return isRight
    ? { status: 200, body: SIGN_IN_ANSWER.text }
    : { status: 401, body: '{"error":"invalid_client","error_description":"wrong secret"}' };
}

function challenge(response: ServerResponse): void {
  const parts = `Bearer authorization="https://${LOGIN_HOST}/tenant-1", resource="https://vault.test"`;
  response.writeHead(401, { "www-authenticate": parts }).end();
}

function createKey(kind: FakeKeyKind): Omit<Version, "name"> {
  const { privateKey, publicKey } = typeof kind === "number"
    ? generateKeyPairSync("rsa", { modulusLength: kind })
    : generateKeyPairSync("ec", { namedCurve: kind });
  return { privateKey, jwk: publicKey.export({ format: "jwk" }) as JsonWebKey };
}

function signWith({ privateKey }: Version, algorithm: string, digest: Uint8Array): Uint8Array {
  assert.equal(DIGEST_BYTES[algorithm], digest.length, `unexpected algorithm ${algorithm}`);
  assert.equal(algorithm.startsWith("RS"), privateKey.asymmetricKeyType === "rsa");
  return signDigest(privateKey, digest);
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}
