import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { isStrongEntityTag } from "@gateway/shared/http/entity_tag";
import { readProblem } from "@gateway/shared/http/problem";
import { type HostsResponse, hostsResponse } from "@gateway/shared/wire/host";
import { rulesPath } from "@gateway/shared/wire/host_rules";
import { signResponse } from "@gateway/shared/wire/sign";
import { z } from "@zod/zod";
import type { ApprovalWaits } from "./approval_wait.ts";
import type { Authority, CertificateRequest, SignAnswer, SignOptions } from "./authority.ts";
import { checkCertificate, type ExpectedCertificate } from "./certificate_check.ts";
import type { SignerClient, SignerReply, SignerRequest } from "./signer_client.ts";

// The id becomes a part of a path and of a text that scripts read.
const parkedResponse = z.object({ approval_id: z.string().regex(/^[\w-]{1,64}$/) });

/** The signer, or a control plane in front of it, over mutual TLS. */
export class RemoteAuthority implements Authority {
  readonly #client: SignerClient;
  readonly #waits: ApprovalWaits;
  /** The last list of hosts and its tag: it is not sent again while it holds. */
  #known: { readonly tag: string; readonly hosts: HostsResponse } | undefined;

  constructor(client: SignerClient, waits: ApprovalWaits) {
    this.#client = client;
    this.#waits = waits;
  }

  async hosts(): Promise<HostsResponse> {
    const known = this.#known;
    const headers = known && { "if-none-match": known.tag };
    const reply = await this.#request({ method: "GET", path: "/v1/hosts", ...(headers && { headers }) });
    const tag = reply.headers?.["etag"];
    // Nothing else can be unchanged than what was asked about.
    if (reply.status === 304 && known !== undefined && tag === known.tag) return known.hosts;
    const hosts = readHosts(reply);
    this.#known = isStrongEntityTag(tag) ? { tag, hosts } : undefined;
    return hosts;
  }

  async rules(hosts: readonly string[], signal: AbortSignal): Promise<HostsResponse> {
    return readHosts(await this.#request({ method: "GET", path: rulesPath(hosts), signal }));
  }

  async sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer> {
    const { signal } = options;
    const reply = await this.#request({ method: "POST", path: "/v1/sign", body: request, signal });
    switch (reply.status) {
      case 200:
        return readAnswer(request, reply, { waited: false });
      case 202: {
        const { approval_id: approvalId } = decode(parkedResponse, reply.body, "an approval id");
        return await this.#collect(request, approvalId, options);
      }
      default:
        return { kind: "rejected", status: reply.status, detail: readProblem(reply).detail };
    }
  }

  async #collect(request: CertificateRequest, approvalId: string, options: SignOptions): Promise<SignAnswer> {
    const { public_key: publicKey, end_user: endUser = "" } = request;
    const collected = await this.#waits.collect({ approvalId, publicKey, endUser }, options);
    if (collected.kind === "undecided") return { kind: "undecided", approvalId, why: collected.why };
    const { reply } = collected;
    if (reply.status !== 200) {
      return { kind: "not_granted", status: reply.status, detail: readProblem(reply).detail };
    }
    return readAnswer(request, reply, { waited: true });
  }

  /** Sends a request; a reply of 500 and up is not an answer, whatever was asked. */
  async #request(options: SignerRequest): Promise<SignerReply> {
    const reply = await this.#send(options);
    if (reply.status >= 500) {
      throw new AppError(
        "upstream_failure",
        `signing service unavailable (${reply.status}): ${readProblem(reply).detail}`,
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

function readHosts(reply: SignerReply): HostsResponse {
  if (reply.status === 200) return decode(hostsResponse, reply.body, "a host list");
  throw new AppError(
    hostsRefusal(reply),
    `host list refused (${reply.status}): ${readProblem(reply).detail}`,
  );
}

/** Whoever may not have the list is denied; nothing behind the broker is at fault. */
function hostsRefusal(reply: SignerReply): ErrorCode {
  if (reply.status !== 403) return "upstream_failure";
  return readProblem(reply).code === "frozen" ? "frozen" : "denied";
}

function useOf({ role, purpose }: CertificateRequest): ExpectedCertificate["use"] {
  if (role === "bastion") return "forwarding";
  return purpose === "session" ? "session" : "command";
}

function readAnswer(
  request: CertificateRequest,
  reply: SignerReply,
  { waited }: { readonly waited: boolean },
): SignAnswer {
  const { certificate, serial, decision, envelope, elevation_prefix: elevationPrefix = "" } = decode(
    signResponse,
    reply.body,
    "a sign response",
  );
  if (request.dry_run === true) {
    if (decision === undefined) {
      throw new AppError("upstream_failure", "signing service returned no decision");
    }
    return { kind: "decided", decision, ...(waited ? { waited } : {}), ...readEnvelope(envelope) };
  }
  // Whatever stands beside it: a signer that says no has not issued anything.
  if (decision?.allowed === false) {
    throw new AppError("upstream_failure", "signing service returned a denial as an answer");
  }
  if (certificate !== undefined && serial !== undefined) {
    const { public_key: publicKey, host } = request;
    const { shim } = checkCertificate(certificate, { publicKey, serial, host, use: useOf(request) });
    return {
      ...{ kind: "issued", certificate, serial, decision, elevationPrefix, waited },
      ...(shim === undefined ? {} : { shim }),
    };
  }
  // Not after a wait: a human has approved already, and asking once more would never end.
  if (decision?.require_approval === true && !waited) {
    return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
  }
  throw new AppError("upstream_failure", "signing service returned no certificate");
}

/** An envelope that can't be read must not lead to the plain command. */
function readEnvelope(envelope: unknown): { readonly envelope?: string } {
  if (envelope === undefined || envelope === "") return {};
  if (typeof envelope === "string") return { envelope };
  throw new AppError("upstream_failure", "signing service returned an envelope that is not text");
}

function decode<T>(schema: z.ZodType<T>, body: unknown, what: string): T {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw new AppError("upstream_failure", `signing service returned something that is not ${what}`, {
    cause: result.error,
  });
}
