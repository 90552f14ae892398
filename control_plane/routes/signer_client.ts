import { AppError, AUDIT_UNAVAILABLE, type ErrorCode } from "@gateway/shared/errors";
import {
  isStrongEntityTag,
  type JsonClient,
  type JsonClientRequest,
  type JsonClientResponse,
  namesEntityTag,
  readProblem,
} from "@gateway/shared/http";
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
  type SignRequest,
  type SignResponse,
  signResponse,
} from "@gateway/shared/wire";
import type * as z from "@zod/zod";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import type { ApprovalTarget } from "../approvals/approval.ts";

/** What came of asking the signer. */
export type SignerAnswer<T> =
  | { readonly kind: "answered"; readonly value: T }
  /** The signer said no, for a reason that the broker can do something about. */
  | { readonly kind: "refused"; readonly error: AppError }
  /** There is no such route on this signer. */
  | { readonly kind: "unknown_route" }
  /** There was no answer, or none that can be used. */
  | Unreachable;

interface Unreachable {
  readonly kind: "unreachable";
  readonly error: AppError;
}

/** What came of asking for hosts. */
type HostsAnswer =
  | SignerAnswer<HostsText>
  /** The broker has them, by this tag. */
  | { readonly kind: "unchanged"; readonly tag: string };

/** A list of hosts as the signer wrote it, and checked. */
interface HostsText {
  readonly text: string;
  readonly tag: string | undefined;
}

/** The statuses that a broker is told as they are, and the code of one that does not name its own. */
const KEPT = { 400: "invalid_request", 403: "denied", 429: "rate_limited" } as const satisfies Record<
  number,
  ErrorCode
>;

/** The signer, asked on behalf of brokers. */
export class SignerClient {
  readonly #client: Pick<JsonClient, "request">;

  constructor(client: Pick<JsonClient, "request">) {
    this.#client = client;
  }

  /**
   * `POST /v1/sign`.
   *
   * @param options.signal ends the exchange; without it the answer is waited for, also when the broker has gone
   * @throws {AppError} `canceled` when the signal is aborted
   */
  sign(
    request: SignRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<SignerAnswer<SignResponse>> {
    return this.#ask(signResponse, { method: "POST", path: "/v1/sign", body: request, ...options });
  }

  /**
   * `GET /v1/hosts` as the broker would see it.
   *
   * @param ifNoneMatch the tags of the lists that the broker has, as it sent them
   */
  async hosts(caller: string, ifNoneMatch?: string): Promise<HostsAnswer> {
    const headers = { ...onBehalfOf(caller), ...(ifNoneMatch && { "if-none-match": ifNoneMatch }) };
    const sent = await this.#send({ method: "GET", path: "/v1/hosts", headers });
    if (sent.kind !== "replied") return sent;
    const tag = isStrongEntityTag(sent.reply.headers["etag"]) ? sent.reply.headers["etag"] : undefined;
    // Only what the broker has can be unchanged.
    if (sent.reply.status === 304 && tag !== undefined && namesEntityTag(ifNoneMatch ?? null, tag)) {
      return { kind: "unchanged", tag };
    }
    const answer = read(hostsResponse, sent.reply);
    if (answer.kind !== "answered") return answer;
    // As it came, for that is what the tag stands for.
    return { kind: "answered", value: { text: sent.reply.text, tag } };
  }

  /** The rules of the hosts that are named, as the broker would see them. */
  rules(caller: string, hosts: readonly string[]): Promise<SignerAnswer<HostsResponse>> {
    return this.#ask(hostsResponse, { method: "GET", path: rulesPath(hosts), headers: onBehalfOf(caller) });
  }

  /** `GET /v1/clusters` as the broker would see it. */
  clusters(caller: string, withRules: boolean): Promise<SignerAnswer<ClustersResponse>> {
    const path = withRules ? "/v1/clusters?policy=true" : "/v1/clusters";
    return this.#ask(clustersResponse, { method: "GET", path, headers: onBehalfOf(caller) });
  }

  /** `GET /v1/revocations`. */
  revocations(): Promise<SignerAnswer<readonly RevocationEntry[]>> {
    return this.#ask(revocationList, { method: "GET", path: "/v1/revocations" });
  }

  /** `POST /v1/revocations/serials` for the broker, which the signer lets revoke its own. */
  revokeSerials(caller: string, body: RevokeSerialsRequest): Promise<SignerAnswer<RevokeResponse>> {
    const path = "/v1/revocations/serials";
    return this.#ask(revokeResponse, { method: "POST", path, body, headers: onBehalfOf(caller) });
  }

  /** `POST /v1/revocations/requests` for the broker, which may name its own. */
  revokeRequests(caller: string, body: RevokeRequestsRequest): Promise<SignerAnswer<RevokeResponse>> {
    const path = "/v1/revocations/requests";
    return this.#ask(revokeResponse, { method: "POST", path, body, headers: onBehalfOf(caller) });
  }

  async #ask<T>(schema: z.ZodType<T>, request: JsonClientRequest): Promise<SignerAnswer<T>> {
    const sent = await this.#send(request);
    return sent.kind === "replied" ? read(schema, sent.reply) : sent;
  }

  async #send(request: JsonClientRequest): Promise<Unreachable | Replied> {
    try {
      return { kind: "replied", reply: await this.#client.request(request) };
    } catch (cause) {
      if (cause instanceof AppError && cause.code === "canceled") throw cause;
      if (cause instanceof AppError && cause.code === "answer_lost") {
        // The broker asks anew, for another key.
        return { kind: "unreachable", error: new AppError(cause.code, cause.message, { cause }) };
      }
      return unreachable("the signer could not be reached", cause);
    }
  }
}

interface Replied {
  readonly kind: "replied";
  readonly reply: JsonClientResponse;
}

function read<T>(schema: z.ZodType<T>, reply: JsonClientResponse): SignerAnswer<T> {
  if (reply.status !== 200) return refusalOf(reply);
  const result = schema.safeParse(reply.body);
  if (result.success) return { kind: "answered", value: result.data };
  return unreachable("the signer's answer could not be understood", result.error);
}

function onBehalfOf(caller: string): Readonly<Record<string, string>> {
  return { "x-on-behalf-of": caller };
}

function refusalOf(reply: JsonClientResponse): Exclude<SignerAnswer<never>, { kind: "answered" }> {
  const { status, headers } = reply;
  if (status === 404) return { kind: "unknown_route" };
  const { detail, code } = readProblem(reply);
  if (code === "audit_unavailable") {
    // The one fault of a signer that brokers are told by name: the text is fixed, and says what to mend.
    const cause = new Error("the signer's audit log");
    return { kind: "unreachable", error: new AppError(code, AUDIT_UNAVAILABLE, { cause }) };
  }
  if (!isKept(status)) {
    return unreachable(`the signer could not answer (status ${status})`, new Error(detail));
  }
  const seconds = Number(headers["retry-after"]);
  return {
    kind: "refused",
    error: new AppError(
      code ?? KEPT[status],
      detail,
      status === 429 ? { retryAfterSeconds: seconds > 0 ? seconds : 1 } : {},
    ),
  };
}

function isKept(status: number): status is keyof typeof KEPT {
  return Object.hasOwn(KEPT, status);
}

function unreachable(message: string, cause: unknown): Unreachable {
  return { kind: "unreachable", error: new AppError("upstream_failure", message, { cause }) };
}

/** The fault that a broker is told for an invalid answer. */
export function faultOf(answer: Exclude<SignerAnswer<unknown>, { kind: "answered" }>): AppError {
  switch (answer.kind) {
    case "refused":
    case "unreachable":
      return answer.error;
    case "unknown_route":
      return new AppError("upstream_failure", "the signer has no such route");
    default:
      return answer satisfies never;
  }
}

/**
 * What the signer is asked on a broker's behalf: the broker's request without what only the control plane may
 * say. Of the public key only type and key are kept.
 *
 * @throws {AppError} `invalid_request` for what the signer would refuse unseen, and which must not get into records
 * and before approvers either; `not_supported` for a target that is neither a host nor a cluster
 */
export function forwardedRequest(received: SignRequest, caller: string): SignRequest {
  const isForCluster = received.target_type === "k8s";
  // A target that is neither is refused below, with the other fields.
  if (!isForCluster) parseEd25519PublicKey(received.public_key);
  const request: SignRequest = {
    ...received,
    // A token is made for no key, and what stood here would be told to approvers as if it were.
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

/** What an approval adds to the request that was stored with it. */
interface ApprovalMark {
  readonly id: string;
  readonly approver: string;
  /** 0: nothing is learned. */
  readonly learnTtlSeconds: number;
}

/** The stored request as it is sent once it is approved. */
export function approvedRequest(stored: SignRequest, mark: ApprovalMark): SignRequest {
  if (mark.learnTtlSeconds <= 0) return { ...stored, approved: true };
  return {
    ...stored,
    approved: true,
    learn_ttl_seconds: mark.learnTtlSeconds,
    learn_approver: mark.approver,
    learn_approval_id: mark.id,
  };
}

/** Where it would run and for how long, as far as the signer says. */
export function targetOf({ target, decision }: SignResponse): ApprovalTarget | undefined {
  return target && { ...target, lifeSeconds: decision?.ttl_seconds ?? 0 };
}

/** What the signer answered, for what the broker wants to do with it. */
type Outcome =
  | { readonly kind: "issued"; readonly response: SignResponse; readonly serial: bigint }
  | { readonly kind: "decided"; readonly response: SignResponse; readonly allowed: boolean }
  | { readonly kind: "needs_approval"; readonly rule: string }
  | { readonly kind: "broken" };

/** Reads the signer's answer. A dry run that needs approval is a decision: only a broker that means to run the command has to wait. */
export function outcomeOf(request: SignRequest, response: SignResponse): Outcome {
  const { certificate, k8s_token: token, serial, decision } = response;
  if (request.dry_run) {
    if (decision === undefined) return { kind: "broken" };
    return {
      kind: "decided",
      response: passOn({ decision, envelope: response.envelope }),
      allowed: decision.allowed,
    };
  }
  // Whatever stands beside it: a signer that says no has not issued anything.
  if (decision?.allowed === false) return { kind: "broken" };
  const credential = request.target_type === "k8s" ? token : certificate;
  if (credential !== undefined && credential.trim() !== "" && serial !== undefined) {
    return { kind: "issued", response: passOn({ ...response, k8s_diff: undefined }), serial };
  }
  if (decision?.require_approval === true) {
    return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
  }
  return { kind: "broken" };
}

/** An envelope executes on a sealed host without asking anybody again: never for what needs approval. */
function passOn(response: SignResponse): SignResponse {
  return response.decision?.require_approval === true ? { ...response, envelope: undefined } : response;
}
