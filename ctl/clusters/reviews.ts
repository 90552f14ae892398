import * as z from "@zod/zod";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseJson } from "@gateway/shared/json";
import type { ApiOutcome, ApiServer } from "@gateway/shared/kubernetes";
import type { AccountName } from "./manifests.ts";
import type { RbacRule } from "./rbac_rule.ts";

/** What is asked about: one verb on one kind of object. */
export interface AccessQuestion {
  /** Absent: in all namespaces. */
  readonly namespace?: string | undefined;
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  /** Absent: all of them. */
  readonly name?: string | undefined;
}

interface AccessAnswer {
  readonly allowed: boolean;
  /** Which binding and role allow it, as the API server says; may be empty. */
  readonly reason: string;
}

/** What may be done with paths that are no objects'. */
interface PathRule {
  readonly verbs: readonly string[];
  readonly nonResourceURLs: readonly string[];
}

/** What may be done in a namespace. */
interface RulesAnswer {
  readonly rules: readonly RbacRule[];
  /** What may be done with paths that are no objects' (`/metrics`), in any namespace. */
  readonly paths: readonly PathRule[];
  /** There may be more: something else than RBAC decides too. */
  readonly incomplete: boolean;
}

/** A token that has been made. */
interface MintedToken {
  readonly token: string;
  /** Empty where the API server gives none. */
  readonly jti: string;
}

/** The least that an API server gives, in seconds. */
const TOKEN_SECONDS = 600;
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;

const strings = z.array(z.string()).nullish().transform((list) => list ?? []);
const selfReview = z.object({
  status: z.object({ userInfo: z.object({ username: z.string(), groups: strings }) }),
});
const accessReview = z.object({
  status: z.object({ allowed: z.boolean(), reason: z.string().default("") }),
});
const rulesReview = z.object({
  status: z.object({
    resourceRules: z.array(z.object({
      verbs: strings,
      apiGroups: strings,
      resources: strings,
      resourceNames: strings,
    })).nullish().transform((rules) => rules ?? []),
    nonResourceRules: z.array(z.object({ verbs: strings, nonResourceURLs: strings }))
      .nullish().transform((rules) => rules ?? []),
    incomplete: z.boolean().default(false),
  }),
});
const tokenRequest = z.object({ status: z.object({ token: z.string().min(1) }) });
const failure = z.object({ message: z.string() });

/** Asks an API server what tokens are and may do; each answer is about the token that it is asked with. */
export class Reviews {
  readonly #server: Pick<ApiServer, "request">;

  constructor(server: Pick<ApiServer, "request">) {
    this.#server = server;
  }

  /** @throws {AppError} `upstream_failure` saying what is wrong with the API server or the token */
  async whoAmI(token: string): Promise<{ readonly username: string; readonly groups: readonly string[] }> {
    const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
    const { status } = await this.#post({ path, token, body, schema: selfReview });
    return status.userInfo;
  }

  /** @throws {AppError} `upstream_failure` */
  async mayI(token: string, { resource: whole, ...question }: AccessQuestion): Promise<AccessAnswer> {
    const [resource, subresource] = whole.split("/");
    const { status } = await this.#post({
      path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
      token,
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes: { ...question, resource, subresource } },
      },
      schema: accessReview,
    });
    return status;
  }

  /** @throws {AppError} `upstream_failure` */
  async rulesIn(token: string, namespace: string): Promise<RulesAnswer> {
    const { status } = await this.#post({
      path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
      token,
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectRulesReview",
        spec: { namespace },
      },
      schema: rulesReview,
    });
    return { rules: status.resourceRules, paths: status.nonResourceRules, incomplete: status.incomplete };
  }

  /** Makes a token of an account. @throws {AppError} `upstream_failure` */
  async mint(token: string, { namespace, name }: AccountName): Promise<MintedToken> {
    const { status } = await this.#post({
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${
        encodeURIComponent(name)
      }/token`,
      token,
      body: {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenRequest",
        spec: { expirationSeconds: TOKEN_SECONDS },
      },
      schema: tokenRequest,
    });
    return { token: status.token, jti: readClaims(status.token)?.jti ?? "" };
  }

  async #post<T>({ path, token, body, schema }: {
    readonly path: string;
    readonly token: string;
    readonly body: unknown;
    readonly schema: z.ZodType<T>;
  }): Promise<T> {
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const outcome = await this.#server.request({
      method: "POST",
      path,
      token,
      body: { type: "application/json", bytes },
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
    });
    if (outcome.kind !== "answered") throw fault(describeSilence(outcome), outcome);
    const { status, text } = outcome;
    if (status < 200 || status > 299) throw fault(describeRefusal(status, text));
    const { data } = schema.safeParse(read(text));
    if (data === undefined) throw fault("it answers as no API server does: is api_server right?");
    return data;
  }
}

function fault(problem: string, outcome?: ApiOutcome): AppError {
  const cause = outcome !== undefined && "cause" in outcome ? outcome.cause : undefined;
  return new AppError("upstream_failure", problem, { cause });
}

function describeSilence(outcome: Exclude<ApiOutcome, { kind: "answered" }>): string {
  switch (outcome.kind) {
    case "too_large":
      return `its answer is larger than ${MAX_BYTES} bytes`;
    case "timed_out":
      return `no answer within ${TIMEOUT_MS / 1000} s`;
    case "canceled":
      return "canceled";
    case "untrusted":
      return `its certificate is not from a CA of ca_cert, or not for its address (${
        errorText(outcome.cause)
      })`;
    case "unreachable":
      return `it can't be reached (${errorText(outcome.cause)})`;
    default:
      return outcome satisfies never;
  }
}

function describeRefusal(status: number, text: string): string {
  if (status === 401) return "it does not take the token (HTTP 401): ended, taken back, or another cluster's";
  if (status >= 300 && status < 400) {
    return `it answers with a redirect (HTTP ${status}), which is not followed: is api_server right?`;
  }
  const { data } = failure.safeParse(read(text));
  return data === undefined ? `it answers HTTP ${status}` : `it answers HTTP ${status}: ${data.message}`;
}

function read(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

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
