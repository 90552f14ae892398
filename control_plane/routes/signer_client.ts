import { AppError, AUDIT_UNAVAILABLE, type ErrorCode } from "@gateway/shared/errors";
import {
  isStrongEntityTag,
  type JsonClient,
  type JsonClientRequest,
  type JsonClientResponse,
  namesEntityTag,
  readProblem,
} from "@gateway/shared/http";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import {
  checkSignFields,
  type ClustersResponse,
  clustersResponse,
  type HostsResponse,
  hostsResponse,
  MAX_SIGN_BODY_BYTES,
  type RevocationEntry,
  revocationList,
  type RevokeRequestsRequest,
  type RevokeResponse,
  revokeResponse,
  type RevokeSerialsRequest,
  rulesPath,
  sessionsReported,
  type SignRequest,
  type SignResponse,
  signResponse,
} from "@gateway/shared/wire";
import type * as z from "@zod/zod";

/** The signer's statuses that brokers receive unchanged, and the code of an answer that does not name its own. */
const KEPT: Readonly<Record<number, ErrorCode>> = {
  400: "invalid_request",
  403: "denied",
  429: "rate_limited",
};

/**
 * Codes of temporary faults of the signer, after which a later attempt can succeed. All other codes are
 * final.
 */
const PASSING: readonly ErrorCode[] = [
  "upstream_failure",
  "answer_lost",
  "audit_unavailable",
  "rate_limited",
];

/** Whether the signer's rejection is final, so that the same request would be rejected again. */
export function isFinal({ code }: AppError): boolean {
  return !PASSING.includes(code);
}

/**
 * The signer, called on behalf of brokers. Each method throws an `AppError` for the broker: the signer's rejection,
 * `upstream_failure`, `answer_lost` or `audit_unavailable`.
 */
export class SignerClient {
  readonly #client: Pick<JsonClient, "request">;

  constructor(client: Pick<JsonClient, "request">) {
    this.#client = client;
  }

  /** Without a signal the exchange continues after the broker disconnects. @throws {AppError} `canceled` if aborted */
  sign(body: SignRequest, options: { readonly signal?: AbortSignal } = {}): Promise<SignResponse> {
    return this.#ask(signResponse, { method: "POST", path: "/v1/sign", body, ...options });
  }

  /**
   * The list of hosts, as the signer wrote it and with its tag; without `text` the broker has the list.
   *
   * @param ifNoneMatch the tags of the lists that the broker has
   */
  async hosts(caller: string, ifNoneMatch?: string) {
    const headers = { ...onBehalfOf(caller), ...(ifNoneMatch && { "if-none-match": ifNoneMatch }) };
    const reply = await this.#send({ method: "GET", path: "/v1/hosts", headers });
    const tag = isStrongEntityTag(reply.headers["etag"]) ? reply.headers["etag"] : undefined;
    if (reply.status === 304 && tag !== undefined && namesEntityTag(ifNoneMatch ?? null, tag)) return { tag };
    read(hostsResponse, reply);
    return { text: reply.text, tag };
  }

  rules(caller: string, hosts: readonly string[]): Promise<HostsResponse> {
    return this.#ask(hostsResponse, { method: "GET", path: rulesPath(hosts), headers: onBehalfOf(caller) });
  }

  /** A signer without the route has no clusters. */
  async clusters(caller: string, withRules: boolean): Promise<ClustersResponse> {
    const path = withRules ? "/v1/clusters?policy=true" : "/v1/clusters";
    const reply = await this.#send({ method: "GET", path, headers: onBehalfOf(caller) });
    return reply.status === 404 ? {} : read(clustersResponse, reply);
  }

  revocations(): Promise<readonly RevocationEntry[]> {
    return this.#ask(revocationList, { method: "GET", path: "/v1/revocations" });
  }

  revokeSerials(caller: string, body: RevokeSerialsRequest): Promise<RevokeResponse> {
    const path = "/v1/revocations/serials";
    return this.#ask(revokeResponse, { method: "POST", path, body, headers: onBehalfOf(caller) });
  }

  revokeRequests(caller: string, body: RevokeRequestsRequest): Promise<RevokeResponse> {
    const path = "/v1/revocations/requests";
    return this.#ask(revokeResponse, { method: "POST", path, body, headers: onBehalfOf(caller) });
  }

  reportSessions(caller: string, body: unknown) {
    const path = "/v1/sessions";
    return this.#ask(sessionsReported, { method: "POST", path, body, headers: onBehalfOf(caller) });
  }

  async #ask<T>(schema: z.ZodType<T>, request: JsonClientRequest): Promise<T> {
    return read(schema, await this.#send(request));
  }

  async #send(request: JsonClientRequest): Promise<JsonClientResponse> {
    try {
      return await this.#client.request(request);
    } catch (cause) {
      if (cause instanceof AppError && cause.code === "canceled") throw cause;
      // The broker sends a lost request again, for another key.
      const isLost = cause instanceof AppError && cause.code === "answer_lost";
      if (isLost) throw new AppError(cause.code, cause.message, { cause });
      throw unavailable("the signer could not be reached", cause);
    }
  }
}

function onBehalfOf(caller: string): Readonly<Record<string, string>> {
  return { "x-on-behalf-of": caller };
}

function read<T>(schema: z.ZodType<T>, reply: JsonClientResponse): T {
  if (reply.status !== 200) throw rejectionOf(reply);
  const result = schema.safeParse(reply.body);
  if (result.success) return result.data;
  throw unavailable("the signer's answer could not be understood", result.error);
}

function rejectionOf(reply: JsonClientResponse): AppError {
  const { status, headers } = reply;
  if (status === 404) return new AppError("upstream_failure", "the signer has no such route");
  const { detail, code } = readProblem(reply);
  if (code === "audit_unavailable") {
    // Only this fault of a signer is passed on to brokers by its code, because its text is fixed.
    return new AppError(code, AUDIT_UNAVAILABLE, { cause: new Error("the signer's audit log") });
  }
  const kept = KEPT[status];
  if (kept === undefined) {
    return unavailable(`the signer could not answer (status ${status})`, new Error(detail));
  }
  const seconds = Number(headers["retry-after"]);
  return new AppError(
    code ?? kept,
    detail,
    status === 429 ? { retryAfterSeconds: seconds > 0 ? seconds : 1 } : {},
  );
}

function unavailable(message: string, cause: unknown): AppError {
  return new AppError("upstream_failure", message, { cause });
}

/**
 * The broker's request without the fields that only the control plane may set. The comment of the public key is
 * removed.
 *
 * @throws {AppError} `invalid_request` for fields that must not reach records and approvers; `not_supported` for a
 * target that is neither a host nor a cluster
 */
export function forwardedRequest(received: SignRequest, caller: string): SignRequest {
  const isForCluster = received.target_type === "k8s";
  if (!isForCluster) parseEd25519PublicKey(received.public_key);
  const request: SignRequest = {
    ...received,
    // A token is not issued for a key, and approvers would see this text as if it were a key.
    public_key: isForCluster ? "" : received.public_key.trimEnd().split(" ", 2).join(" "),
    on_behalf_of: caller,
    approved: false,
    learn_ttl_seconds: 0,
    learn_approver: "",
    learn_approval_id: "",
  };
  checkSignFields(request, MAX_SIGN_BODY_BYTES.ssh);
  return request;
}

/** The stored request as it is sent once it is approved. */
export function approvedRequest(
  stored: SignRequest,
  mark: { readonly id: string; readonly approver: string; readonly learnTtlSeconds: number },
): SignRequest {
  return {
    ...stored,
    approved: true,
    ...(mark.learnTtlSeconds > 0 && {
      learn_ttl_seconds: mark.learnTtlSeconds,
      learn_approver: mark.approver,
      learn_approval_id: mark.id,
    }),
  };
}

type Outcome =
  | { readonly kind: "issued"; readonly response: SignResponse; readonly serial: bigint }
  | { readonly kind: "decided"; readonly response: SignResponse; readonly allowed: boolean }
  | { readonly kind: "needs_approval"; readonly rule: string }
  | { readonly kind: "broken" };

/**
 * Classifies the signer's answer. A dry run that needs approval is a decision. Only a real request has to
 * wait.
 */
export function outcomeOf(request: SignRequest, response: SignResponse): Outcome {
  const { certificate, k8s_token: token, serial, decision, envelope } = response;
  if (request.dry_run) {
    if (decision === undefined) return { kind: "broken" };
    return { kind: "decided", response: passOn({ decision, envelope }), allowed: decision.allowed };
  }
  // A denial never carries a credential, so ignore all other fields.
  if (decision?.allowed === false) return { kind: "broken" };
  const credential = request.target_type === "k8s" ? token : certificate;
  if (credential !== undefined && credential.trim() !== "" && serial !== undefined) {
    return { kind: "issued", response: passOn({ ...response, k8s_diff: undefined }), serial };
  }
  if (decision?.require_approval !== true) return { kind: "broken" };
  return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
}

/** A sealed host executes an envelope without another check, so a request that needs approval gets none. */
function passOn(response: SignResponse): SignResponse {
  return response.decision?.require_approval === true ? { ...response, envelope: undefined } : response;
}
