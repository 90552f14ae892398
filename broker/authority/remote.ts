import { AppError } from "@gateway/shared/errors";
import { isStrongEntityTag, type JsonClientRequest, readProblem } from "@gateway/shared/http";
import { parseCertificate, parseEd25519PublicKey } from "@gateway/shared/ssh";
import {
  type ClustersResponse,
  clustersResponse,
  type HostsResponse,
  hostsResponse,
  rulesPath,
  type SignResponse,
  signResponse,
} from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { ApprovalWaits } from "./approval_wait.ts";
import type {
  Authority,
  CertificateRequest,
  SignAnswer,
  SignerClient,
  SignerReply,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "./authority.ts";

// The ID is inserted into a URL path and into a text that scripts parse.
const parkedResponse = z.object({ approval_id: z.string().regex(/^[\w-]{1,64}$/) });

/** The form of a token, which is sent in a header. */
const TOKEN = /^[\x21-\x7e]{1,65536}$/;

export class RemoteAuthority implements Authority {
  readonly #client: SignerClient;
  readonly #waits: ApprovalWaits;
  /** The last list of hosts and its tag, so that the signer can answer 304 if the list has not changed. */
  #known: { readonly tag: string; readonly hosts: HostsResponse } | undefined;
  /** The last list of clusters and its text, so that an unchanged list is not parsed again. */
  #knownClusters: { readonly text: string; readonly clusters: ClustersResponse } | undefined;

  constructor(client: SignerClient, waits: ApprovalWaits) {
    this.#client = client;
    this.#waits = waits;
  }

  async hosts(): Promise<HostsResponse> {
    const known = this.#known;
    const headers = known && { "if-none-match": known.tag };
    const reply = await this.#request({ method: "GET", path: "/v1/hosts", ...(headers && { headers }) });
    const tag = reply.headers?.["etag"];
    // A 304 for another tag does not mean that our list is unchanged.
    if (reply.status === 304 && known !== undefined && tag === known.tag) return known.hosts;
    const hosts = readList(reply, hostsResponse, "host list");
    this.#known = isStrongEntityTag(tag) ? { tag, hosts } : undefined;
    return hosts;
  }

  async rules(hosts: readonly string[], signal: AbortSignal): Promise<HostsResponse> {
    const reply = await this.#request({ method: "GET", path: rulesPath(hosts), signal });
    return readList(reply, hostsResponse, "host list");
  }

  async clusters(): Promise<ClustersResponse> {
    const reply = await this.#request({ method: "GET", path: "/v1/clusters?policy=true" });
    // An older signer without this path has no clusters.
    if (reply.status === 404) return {};
    const known = this.#knownClusters;
    if (reply.status === 200 && reply.text !== "" && reply.text === known?.text) return known.clusters;
    const clusters = readList(reply, clustersResponse, "cluster list");
    this.#knownClusters = { text: reply.text, clusters };
    return clusters;
  }

  sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer> {
    return this.#submit<Extract<SignAnswer, { kind: "issued" }>>(request, options, {
      what: "certificate",
      read({ certificate, serial, decision, elevation_prefix: elevationPrefix = "" }, waited) {
        if (certificate === undefined || serial === undefined) return undefined;
        const { public_key: publicKey, host, role, purpose } = request;
        const use = role === "bastion" ? "forwarding" : purpose === "session" ? "session" : "command";
        const shim = checkCertificate(certificate, { publicKey, serial, host, use });
        return {
          ...{ kind: "issued", certificate, serial, decision, elevationPrefix, waited },
          ...(shim !== undefined && { shim }),
        };
      },
    });
  }

  token(request: TokenRequest, options: SignOptions): Promise<TokenAnswer> {
    return this.#submit<Extract<TokenAnswer, { kind: "issued" }>>(request, options, {
      what: "token",
      read({ k8s_token: token, serial, decision }, waited) {
        if (token === undefined || serial === undefined) return undefined;
        if (!TOKEN.test(token)) fail("returned a token that is not one");
        return { kind: "issued", token, serial, decision, waited };
      },
    });
  }

  /** @param issued reads the issued secret. `undefined`: the response has none */
  async #submit<Issued>(
    request: CertificateRequest | TokenRequest,
    options: SignOptions,
    { what, read }: {
      readonly what: string;
      readonly read: (response: SignResponse, waited: boolean) => Issued | undefined;
    },
  ): Promise<Issued | Exclude<SignAnswer, { readonly kind: "issued" }>> {
    const { signal } = options;
    let reply = await this.#request({ method: "POST", path: "/v1/sign", body: request, signal });
    const waited = reply.status === 202;
    if (waited) {
      const { approval_id: approvalId } = decode(parkedResponse, reply.body, "an approval id");
      const { public_key: publicKey = "", end_user: endUser = "" } = request;
      const collected = await this.#waits.collect({ approvalId, publicKey, endUser }, options);
      if (typeof collected === "string") return { kind: "undecided", approvalId, why: collected };
      reply = collected;
    }
    if (reply.status !== 200) {
      const { detail } = readProblem(reply);
      return { kind: waited ? "not_granted" : "rejected", status: reply.status, detail };
    }
    const response = decode(signResponse, reply.body, "a sign response");
    const { decision, envelope } = response;
    if (request.dry_run === true) {
      if (decision === undefined) fail("returned no decision");
      return { kind: "decided", decision, ...(waited && { waited }), ...readEnvelope(envelope) };
    }
    // A denial never carries a certificate, so ignore all other fields.
    if (decision?.allowed === false) fail("returned a denial as an answer");
    const issued = read(response, waited);
    if (issued !== undefined) return issued;
    // After the wait, a human has already approved. Accepting another approval requirement could loop
    // forever.
    if (decision?.require_approval !== true || waited) fail(`returned no ${what}`);
    return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
  }

  /** Sends a request. A status of 500 or above is a failure of the service for every kind of request. */
  async #request(options: JsonClientRequest): Promise<SignerReply> {
    let reply: SignerReply;
    try {
      reply = await this.#client.request(options);
    } catch (cause) {
      if (options.signal?.aborted) throw new AppError("canceled", "request canceled", { cause });
      // The text of another kind of error may contain the signer's address.
      const why = cause instanceof AppError ? cause.message : "failed";
      const isLost = cause instanceof AppError && cause.code === "answer_lost";
      throw unavailable(isLost, `: contacting signing service: ${why}`, cause);
    }
    if (reply.status < 500) return reply;
    const { code, detail } = readProblem(reply);
    throw unavailable(code === "answer_lost", ` (${reply.status}): ${detail}`);
  }
}

function unavailable(isLost: boolean, why: string, cause?: unknown): AppError {
  const code = isLost ? "answer_lost" : "upstream_failure";
  return new AppError(code, `signing service unavailable${why}`, { cause });
}

export function readList<T>(reply: SignerReply, schema: z.ZodType<T>, what: string): T {
  if (reply.status === 200) return decode(schema, reply.body, `a ${what}`);
  const { code, detail } = readProblem(reply);
  // Status 403 rejects the broker itself, so no service behind it has failed.
  const denied = code === "frozen" ? "frozen" : "denied";
  throw new AppError(
    reply.status === 403 ? denied : "upstream_failure",
    `${what} refused (${reply.status}): ${detail}`,
  );
}

/** Reads the envelope. An unreadable envelope must fail, and never lead to the plain command. */
function readEnvelope(envelope: unknown): { readonly envelope?: string } {
  if (envelope === undefined || envelope === "") return {};
  return typeof envelope === "string" ? { envelope } : fail("returned an envelope that is not text");
}

function decode<T>(schema: z.ZodType<T>, body: unknown, what: string): T {
  const result = schema.safeParse(body);
  return result.success ? result.data : fail(`returned something that is not ${what}`, result.error);
}

function fail(what: string, cause?: unknown): never {
  throw new AppError("upstream_failure", `signing service ${what}`, { cause });
}

/**
 * Checks that a certificate is the requested one: for our key, with the serial of the audit records, and locked to a
 * command, or to forwarding for a bastion. The signer is trusted to decide. The check guards against a signer that
 * mixes up its answers, and against a certificate that would open a shell.
 * @param expected `publicKey` is the ephemeral key that was sent, as an authorized_keys line
 * @returns the shim that the commands of a session on a sealed host are locked to, as the host calls it
 * @throws {AppError} `upstream_failure` with the first difference
 */
export function checkCertificate(
  line: string,
  { publicKey, serial, use, host }: {
    readonly publicKey: string;
    readonly serial: bigint;
    readonly use: "command" | "session" | "forwarding";
    readonly host: string;
  },
): string | undefined {
  const refuse = (what: string) => fail(`returned a certificate with ${what}`);
  const { kind, ...certificate } = readCertificate(line);
  if (kind !== "user") refuse("another kind");
  if (certificate.publicKey.toHex() !== parseEd25519PublicKey(publicKey).toHex()) {
    refuse("another public key");
  }
  if (certificate.serial !== serial) refuse("another serial");
  const forced = certificate.criticalOptions["force-command"] ?? "";
  if (use === "command" && forced === "") refuse("no force-command");
  if (use === "forwarding" && certificate.extensions.join() !== "permit-port-forwarding") {
    refuse("other permissions than a bastion's");
  }
  if (use !== "session" || forced === "") return undefined;
  // A session on a sealed host is locked to a shim of that host.
  const [shim = "", named, ...rest] = forced.split(" ");
  if (shim === "" || named !== host || rest.length > 0) refuse("a force-command for a session");
  return shim;
}

function readCertificate(line: string) {
  try {
    return parseCertificate(line);
  } catch (cause) {
    return fail("returned an unreadable certificate", cause);
  }
}
