import * as z from "@zod/zod";
import { AppError, errorText } from "@gateway/shared/errors";
import { each } from "@gateway/shared/wire";
import type { ApiOutcome, ApiServer } from "@gateway/shared/kubernetes";
import { readJson } from "../kit/values.ts";
import type { AccountName } from "./entry.ts";
import type { RbacRule, Right } from "./rights.ts";

/** The shortest lifetime that an API server accepts, in seconds. */
const TOKEN_SECONDS = 600;
const TIMEOUT_MS = 10_000;
const MAX_BYTES = 4 * 1024 * 1024;

const strings = z.array(z.string()).nullish().transform((list): readonly string[] => list ?? []);
const selfReview = z.object({
  status: z.object({ userInfo: z.object({ username: z.string(), groups: strings }) }),
});
const accessReview = z.object({ status: z.object({ allowed: z.boolean(), reason: z.string().default("") }) });
const rulesReview = z.object({
  status: z.object({
    resourceRules: z.array(z.object(each(strings, "verbs", "apiGroups", "resources", "resourceNames")))
      .nullish().transform((rules) => rules ?? []),
    nonResourceRules: z.array(z.object({ verbs: strings, nonResourceURLs: strings }))
      .nullish().transform((rules) => rules ?? []),
    incomplete: z.boolean().default(false),
  }),
});
const tokenRequest = z.object({ status: z.object({ token: z.string().min(1) }) });
const failure = z.object({ message: z.string() });

/** Queries an API server with the token of the account in question. Each method throws `upstream_failure`. */
export class Reviews {
  readonly #server: Pick<ApiServer, "request">;

  constructor(server: Pick<ApiServer, "request">) {
    this.#server = server;
  }

  async whoAmI(token: string) {
    return (await this.#review(token, "authentication", "SelfSubjectReview", undefined, selfReview)).userInfo;
  }

  /** @returns also the reason, which names the binding and the role; may be empty */
  mayI(token: string, { resource: whole, ...question }: Right) {
    const [resource, subresource] = whole.split("/");
    const spec = { resourceAttributes: { ...question, resource, subresource } };
    return this.#review(token, "authorization", "SelfSubjectAccessReview", spec, accessReview);
  }

  /** @returns the rights in a namespace; incomplete: another authorizer than RBAC may allow more */
  async rulesIn(token: string, namespace: string) {
    const kind = "SelfSubjectRulesReview";
    const status = await this.#review(token, "authorization", kind, { namespace }, rulesReview);
    const rules: readonly RbacRule[] = status.resourceRules;
    return { rules, paths: status.nonResourceRules, incomplete: status.incomplete };
  }

  /** Issues a token for an account. @returns also its ID; empty if the API server does not report it */
  async mint(token: string, { namespace, name }: AccountName) {
    const account = `${encodeURIComponent(namespace)}/serviceaccounts/${encodeURIComponent(name)}`;
    const { status } = await this.#post(token, `/api/v1/namespaces/${account}/token`, {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: TOKEN_SECONDS },
    }, tokenRequest);
    return { token: status.token, jti: readClaims(status.token)?.jti ?? "" };
  }

  async #review<T>(
    token: string,
    topic: "authentication" | "authorization",
    kind: string,
    spec: object | undefined,
    schema: z.ZodType<{ readonly status: T }>,
  ): Promise<T> {
    const apiVersion = `${topic}.k8s.io/v1`;
    const path = `/apis/${apiVersion}/${kind.toLowerCase()}s`;
    return (await this.#post(token, path, { apiVersion, kind, spec }, schema)).status;
  }

  async #post<T>(token: string, path: string, body: object, schema: z.ZodType<T>): Promise<T> {
    const bytes = new TextEncoder().encode(JSON.stringify(body));
    const outcome = await this.#server.request({
      ...{ method: "POST", path, token, body: { type: "application/json", bytes } },
      ...{ timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES },
    });
    if (outcome.kind !== "answered") {
      throw fault(describeSilence(outcome), "cause" in outcome ? outcome.cause : undefined);
    }
    const { status, text } = outcome;
    if (status < 200 || status > 299) throw fault(describeRefusal(status, text));
    const data = readJson(schema, text);
    if (data === undefined) throw fault("it did not respond like an API server: is api_server correct?");
    return data;
  }
}

function fault(problem: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", problem, { cause });
}

function describeSilence(outcome: Exclude<ApiOutcome, { kind: "answered" }>): string {
  const cause = "cause" in outcome ? errorText(outcome.cause) : "";
  const texts = {
    too_large: `its response is larger than ${MAX_BYTES} bytes`,
    timed_out: `no response within ${TIMEOUT_MS / 1000} s`,
    canceled: "canceled",
    untrusted: `its certificate is not from a CA in ca_cert, or not for its address (${cause})`,
    unreachable: `it is unreachable (${cause})`,
  };
  return texts[outcome.kind];
}

function describeRefusal(status: number, text: string): string {
  if (status === 401) return "it rejected the token (HTTP 401): expired, revoked, or of another cluster";
  if (status >= 300 && status < 400) {
    return `it responded with a redirect (HTTP ${status}), which is not followed: is api_server correct?`;
  }
  const data = readJson(failure, text);
  return data === undefined
    ? `it responded with HTTP ${status}`
    : `it responded with HTTP ${status}: ${data.message}`;
}

const claims = z.object({
  /** Empty for no id. */
  jti: z.string().default(""),
  /** Seconds since the epoch; absent: the token never expires. */
  exp: z.number().optional(),
});

/** Reads a ServiceAccount's token without checking its signature; undefined: not a JSON Web Token. */
export function readClaims(token: string): z.infer<typeof claims> | undefined {
  const [, payload = "", signature] = token.split(".");
  if (signature === undefined) return undefined;
  let bytes: Uint8Array;
  try {
    bytes = Uint8Array.fromBase64(payload, { alphabet: "base64url" });
  } catch {
    return undefined;
  }
  return readJson(claims, new TextDecoder().decode(bytes));
}
