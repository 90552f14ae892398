import { AppError } from "@gateway/shared/errors";
import { type HostsResponse, hostsResponse } from "@gateway/shared/wire/host";
import { signResponse } from "@gateway/shared/wire/sign";
import { z } from "@zod/zod";
import type { Authority, CertificateRequest, SignAnswer } from "./authority.ts";
import { checkCertificate } from "./certificate_check.ts";

/** The part of an HTTP client that is used here. */
export interface SignerClient {
  request(options: SignerRequest): Promise<SignerReply>;
}

/** One request to the signer. */
export interface SignerRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** The signer's reply. */
export interface SignerReply {
  readonly status: number;
  /** The parsed JSON, undefined when it is none. */
  readonly body: unknown;
  readonly text: string;
}

const parkedResponse = z.object({ approval_id: z.string() });
const problem = z.object({ detail: z.string() });

/** As much of a reply as an error text repeats, in characters. */
const MAX_DETAIL = 1000;

/** The signer, or a control plane in front of it, over mutual TLS. */
export class RemoteAuthority implements Authority {
  readonly #client: SignerClient;

  constructor(client: SignerClient) {
    this.#client = client;
  }

  async hosts(): Promise<HostsResponse> {
    const reply = await this.#request({ method: "GET", path: "/v1/hosts" });
    if (reply.status !== 200) {
      throw new AppError("upstream_failure", `host list refused (${reply.status}): ${detailOf(reply)}`);
    }
    return decode(hostsResponse, reply.body, "a host list");
  }

  async sign(request: CertificateRequest, signal: AbortSignal): Promise<SignAnswer> {
    const reply = await this.#request({ method: "POST", path: "/v1/sign", body: request, signal });
    switch (reply.status) {
      case 200:
        return readAnswer(request, reply);
      case 202:
        return {
          kind: "parked",
          approvalId: decode(parkedResponse, reply.body, "an approval id").approval_id,
        };
      default:
        return { kind: "rejected", status: reply.status, detail: detailOf(reply) };
    }
  }

  /** Sends a request; a reply of 500 and up is no answer, whatever was asked. */
  async #request(options: SignerRequest): Promise<SignerReply> {
    const reply = await this.#send(options);
    if (reply.status >= 500) {
      throw new AppError(
        "upstream_failure",
        `signing service unavailable (${reply.status}): ${detailOf(reply)}`,
      );
    }
    return reply;
  }

  async #send(options: SignerRequest): Promise<SignerReply> {
    try {
      return await this.#client.request(options);
    } catch (cause) {
      if (options.signal?.aborted) throw new AppError("canceled", "request canceled", { cause });
      // A text that the client did not mean for others may name the signer's address.
      const why = cause instanceof AppError ? cause.message : "failed";
      throw new AppError(
        "upstream_failure",
        `signing service unavailable: contacting signing service: ${why}`,
        { cause },
      );
    }
  }
}

function readAnswer(request: CertificateRequest, reply: SignerReply): SignAnswer {
  const { certificate, serial, decision } = decode(signResponse, reply.body, "a sign response");
  if (request.dry_run === true) {
    if (decision === undefined) {
      throw new AppError("upstream_failure", "signing service returned no decision");
    }
    return { kind: "decided", decision };
  }
  if (certificate !== undefined && serial !== undefined) {
    checkCertificate(certificate, { publicKey: request.public_key, serial });
    return { kind: "issued", certificate, serial, decision };
  }
  if (decision?.require_approval === true) {
    return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
  }
  throw new AppError("upstream_failure", "signing service returned no certificate");
}

function decode<T>(schema: z.ZodType<T>, body: unknown, what: string): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw new AppError("upstream_failure", `signing service returned something that is not ${what}`, {
    cause: result.error,
  });
}

/** The text for people: of a problem document its `detail`, of anything else the trimmed body. */
function detailOf(reply: SignerReply): string {
  const result = problem.safeParse(reply.body);
  const text = result.success ? result.data.detail : reply.text.trim();
  return text.length > MAX_DETAIL ? `${text.slice(0, MAX_DETAIL)}…` : text;
}
