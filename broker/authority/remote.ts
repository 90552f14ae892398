import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { isStrongEntityTag, readProblem } from "@gateway/shared/http";
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
  SignerRequest,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "./authority.ts";
import { parseCertificate, parseEd25519PublicKey } from "@gateway/shared/ssh";

// The id becomes a part of a path and of a text that scripts read.
const parkedResponse = z.object({ approval_id: z.string().regex(/^[\w-]{1,64}$/) });

const TOKEN = /^[\x21-\x7e]{1,65536}$/;

/** What became of a request: a reply that says what was signed or decided, or why there is none. */
type Submitted =
  | { readonly kind: "replied"; readonly reply: SignerReply; readonly waited: boolean }
  | Extract<SignAnswer, { readonly kind: "rejected" | "undecided" | "not_granted" }>;

/** The signer, or a control plane in front of it, over mutual TLS. */
export class RemoteAuthority implements Authority {
  readonly #client: SignerClient;
  readonly #waits: ApprovalWaits;
  /** The last list of hosts and its tag: it is not sent again while it holds. */
  #known: { readonly tag: string; readonly hosts: HostsResponse } | undefined;

  /** The last list of clusters as it came: it is not looked through again while it is the same. */
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
    // Nothing else can be unchanged than what was asked about.
    if (reply.status === 304 && known !== undefined && tag === known.tag) return known.hosts;
    const hosts = readHosts(reply);
    this.#known = isStrongEntityTag(tag) ? { tag, hosts } : undefined;
    return hosts;
  }

  async rules(hosts: readonly string[], signal: AbortSignal): Promise<HostsResponse> {
    return readHosts(await this.#request({ method: "GET", path: rulesPath(hosts), signal }));
  }

  async clusters(): Promise<ClustersResponse> {
    const reply = await this.#request({ method: "GET", path: "/v1/clusters?policy=true" });
    // A signer that knows no clusters has none.
    if (reply.status === 404) return {};
    const known = this.#knownClusters;
    if (reply.status === 200 && reply.text !== "" && reply.text === known?.text) return known.clusters;
    const clusters = readList(reply, clustersResponse, "cluster list");
    this.#knownClusters = { text: reply.text, clusters };
    return clusters;
  }

  async sign(request: CertificateRequest, options: SignOptions): Promise<SignAnswer> {
    const submitted = await this.#submit(request, options);
    return submitted.kind === "replied" ? readAnswer(request, submitted.reply, submitted) : submitted;
  }

  async token(request: TokenRequest, options: SignOptions): Promise<TokenAnswer> {
    const submitted = await this.#submit(request, options);
    return submitted.kind === "replied" ? readToken(request, submitted.reply, submitted) : submitted;
  }

  async #submit(request: CertificateRequest | TokenRequest, options: SignOptions): Promise<Submitted> {
    const { signal } = options;
    const reply = await this.#request({ method: "POST", path: "/v1/sign", body: request, signal });
    switch (reply.status) {
      case 200:
        return { kind: "replied", reply, waited: false };
      case 202: {
        const { approval_id: approvalId } = decode(parkedResponse, reply.body, "an approval id");
        return await this.#collect(request, approvalId, options);
      }
      default:
        return { kind: "rejected", status: reply.status, detail: readProblem(reply).detail };
    }
  }

  async #collect(
    { public_key: publicKey = "", end_user: endUser = "" }: CertificateRequest | TokenRequest,
    approvalId: string,
    options: SignOptions,
  ): Promise<Submitted> {
    const collected = await this.#waits.collect({ approvalId, publicKey, endUser }, options);
    if (collected.kind === "undecided") return { kind: "undecided", approvalId, why: collected.why };
    const { reply } = collected;
    if (reply.status !== 200) {
      return { kind: "not_granted", status: reply.status, detail: readProblem(reply).detail };
    }
    return { kind: "replied", reply, waited: true };
  }

  /** Sends a request; a reply of 500 and up is not an answer, whatever was asked. */
  async #request(options: SignerRequest): Promise<SignerReply> {
    const reply = await this.#send(options);
    if (reply.status >= 500) {
      throw new AppError(
        readProblem(reply).code === "answer_lost" ? "answer_lost" : "upstream_failure",
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
        cause instanceof AppError && cause.code === "answer_lost" ? "answer_lost" : "upstream_failure",
        `signing service unavailable: contacting signing service: ${why}`,
        { cause },
      );
    }
  }
}

function readHosts(reply: SignerReply): HostsResponse {
  return readList(reply, hostsResponse, "host list");
}

function readList<T>(reply: SignerReply, schema: z.ZodType<T>, what: string): T {
  if (reply.status === 200) return decode(schema, reply.body, `a ${what}`);
  throw new AppError(
    listRefusal(reply),
    `${what} refused (${reply.status}): ${readProblem(reply).detail}`,
  );
}

/** Whoever may not have a list is denied; nothing behind the broker is at fault. */
function listRefusal(reply: SignerReply): ErrorCode {
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
  const response = readResponse(reply);
  const { certificate, serial, decision, envelope, elevation_prefix: elevationPrefix = "" } = response;
  if (request.dry_run === true) return readDecision(response, waited, readEnvelope(envelope));
  checkAllowed(response);
  if (certificate !== undefined && serial !== undefined) {
    const { public_key: publicKey, host } = request;
    const { shim } = checkCertificate(certificate, { publicKey, serial, host, use: useOf(request) });
    return {
      ...{ kind: "issued", certificate, serial, decision, elevationPrefix, waited },
      ...(shim === undefined ? {} : { shim }),
    };
  }
  return needsApproval(response, waited) ?? fail("returned no certificate");
}

function readToken(
  request: TokenRequest,
  reply: SignerReply,
  { waited }: { readonly waited: boolean },
): TokenAnswer {
  const response = readResponse(reply);
  const { k8s_token: token, serial, decision } = response;
  if (request.dry_run === true) return readDecision(response, waited, {});
  checkAllowed(response);
  if (token !== undefined && serial !== undefined) {
    // It stands in a header.
    if (!TOKEN.test(token)) fail("returned a token that is not one");
    return { kind: "issued", token, serial, decision, waited };
  }
  return needsApproval(response, waited) ?? fail("returned no token");
}

function readResponse(reply: SignerReply): SignResponse {
  return decode(signResponse, reply.body, "a sign response");
}

function readDecision(
  { decision }: SignResponse,
  waited: boolean,
  envelope: { readonly envelope?: string },
): Extract<SignAnswer, { readonly kind: "decided" }> {
  if (decision === undefined) fail("returned no decision");
  return { kind: "decided", decision, ...(waited ? { waited } : {}), ...envelope };
}

/** Whatever stands beside it: a signer that says no has not issued anything. */
function checkAllowed({ decision }: SignResponse): void {
  if (decision?.allowed === false) fail("returned a denial as an answer");
}

/** Not after a wait: a human has approved already, and asking once more would never end. */
function needsApproval(
  { decision }: SignResponse,
  waited: boolean,
): Extract<SignAnswer, { readonly kind: "needs_approval" }> | undefined {
  if (decision?.require_approval !== true || waited) return undefined;
  return { kind: "needs_approval", rule: decision.matched_rule ?? "" };
}

function fail(what: string): never {
  throw new AppError("upstream_failure", `signing service ${what}`);
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

const FORWARDING = "permit-port-forwarding";

/** What a certificate must agree with. */
interface ExpectedCertificate {
  /** The ephemeral key that was sent, an authorized_keys line. */
  readonly publicKey: string;
  /** The serial beside the certificate in the answer. */
  readonly serial: bigint;
  /** What it was asked for: one command, the commands of a session, or to pass through to another host. */
  readonly use: "command" | "session" | "forwarding";
  readonly host: string;
}

/** What a certificate says that its answer does not. */
interface CheckedCertificate {
  /** The shim that the commands of a session go through, as the host calls it; `undefined`: they go through none. */
  readonly shim: string | undefined;
}

/**
 * Checks that a certificate is the one that was asked for: made for our key, carrying the serial that the
 * audit records will name, and locked to a command, or as a bastion's to forwarding. The signer is trusted to
 * decide; this guards against one that mixes up its answers, and against a certificate that would open a shell.
 *
 * @throws {AppError} `upstream_failure` naming the first thing that differs
 */
export function checkCertificate(line: string, expected: ExpectedCertificate): CheckedCertificate {
  const certificate = parse(line);
  if (certificate.kind !== "user") throw refused("another kind");
  if (!isEqual(certificate.publicKey, parseEd25519PublicKey(expected.publicKey))) {
    throw refused("another public key");
  }
  if (certificate.serial !== expected.serial) throw refused("another serial");
  const forced = certificate.criticalOptions["force-command"] ?? "";
  switch (expected.use) {
    case "command":
      if (forced === "") throw refused("no force-command");
      return { shim: undefined };
    case "session":
      return { shim: forced === "" ? undefined : shimOf(forced, expected.host) };
    case "forwarding":
      if (certificate.extensions.join() !== FORWARDING) throw refused("other permissions than a bastion's");
      return { shim: undefined };
    default:
      return expected.use satisfies never;
  }
}

/** The session of a sealed host is locked to a shim that speaks for that host, and to nothing else. */
function shimOf(forced: string, host: string): string {
  const [shim = "", named, ...rest] = forced.split(" ");
  if (shim === "" || named !== host || rest.length > 0) throw refused("a force-command for a session");
  return shim;
}

function parse(line: string): ReturnType<typeof parseCertificate> {
  try {
    return parseCertificate(line);
  } catch (cause) {
    throw new AppError("upstream_failure", "signing service returned an unreadable certificate", { cause });
  }
}

function refused(what: string): AppError {
  return new AppError("upstream_failure", `signing service returned a certificate with ${what}`);
}

function isEqual(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
