import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { Purpose, SignRequest, WireDecision } from "@gateway/shared/wire";
import type {
  Authority,
  CertificateRequest,
  SignAnswer,
  SignOptions,
  TokenAnswer,
  TokenRequest,
} from "../authority/authority.ts";
import { type HostsPorts, refreshHosts, routeTo } from "./fresh_hosts.ts";
import { type Hop, type Route, targetOf } from "./route.ts";
import type { HopLogin, HopLogins } from "../ssh/connect_route.ts";
import type { EphemeralKey } from "../ssh/ephemeral_key.ts";

/** A certificate to connect with, the decision that a dry run asked for, or that a human has to approve first. */
type Obtained = Extract<SignAnswer, { kind: "issued" | "decided" | "needs_approval" }>;

/** Who asks for the authority to do what, and for how long. */
export interface Intent {
  readonly caller: string;
  /** `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token: a secret. */
  readonly bearerToken?: string | undefined;
  readonly purpose: Purpose;
  readonly ttlSeconds: number;
  /** The ID of the session that it is for. */
  readonly sessionId?: string;
  /** Why, in the caller's words: for whoever has to approve it. */
  readonly reason?: string | undefined;
  /** What is asked of the target alone: bastions only forward. */
  readonly target: TargetIntent;
}

/** The fields of a sign request that no bastion's has. */
export type TargetIntent = Partial<
  Pick<
    SignRequest,
    | "command"
    | "session_mode"
    | "session_max_seconds"
    | "sudo"
    | "sudo_user"
    | "pty"
    | "file_transfer"
    | "dry_run"
    | "preflight"
    | "approved"
    | "content_sha256"
    | "content_bytes"
    | "content_head"
  >
>;

/** Where certificates and the keys for them come from. */
export interface ObtainPorts extends HostsPorts {
  readonly authority: Authority;
  readonly createKey: () => EphemeralKey;
}

/** How an answer is waited for. */
interface ObtainOptions {
  readonly signal: AbortSignal;
  /** Told what is being waited for. */
  readonly onProgress?: ((text: string) => void) | undefined;
}

/** What it takes to connect to a host, through all of its bastions. */
export interface RouteAuthority {
  readonly kind: "issued";
  /** The way that the hops lead, as it is known now. */
  readonly route: Route;
  readonly hops: HopLogins;
  readonly serial: bigint;
  /** Of the bastions' certificates, those too that were not waited for and are still good. */
  readonly bastionSerials: readonly bigint[];
  readonly decision: WireDecision | undefined;
  /** The prefix for the commands of an elevated session; empty for none. */
  readonly elevationPrefix: string;
  /** Of a session on a sealed host: the shim that the target's certificate is locked to. */
  readonly shim: string | undefined;
}

/** A token to act on a cluster with, the decision that a dry run asked for, or that a human has to approve first. */
type ObtainedToken = Extract<TokenAnswer, { kind: "issued" | "decided" | "needs_approval" }>;

/**
 * Gets one certificate, or the decision about it; waits for a human where one has been asked.
 *
 * @throws {AppError} `denied` when the authority or the human refuses, `approval_required` when the human has
 * not decided, `upstream_failure` when there is no usable answer
 */
export function obtain(
  authority: Pick<Authority, "sign">,
  request: CertificateRequest,
  options: ObtainOptions,
): Promise<Obtained> {
  const what = `signing cert for ${quoteText(request.host)}`;
  return settle(what, (signing) => authority.sign(request, signing), options);
}

/**
 * Gets a token for one action on a cluster, or the decision about it; waits for a human where one has been asked.
 *
 * @throws {AppError} as {@linkcode obtain} does
 */
export function obtainToken(
  authority: Pick<Authority, "token">,
  request: TokenRequest,
  options: ObtainOptions,
): Promise<ObtainedToken> {
  const what = `token for ${quoteText(request.host)}`;
  return askAnew(() => settle(what, (signing) => authority.token(request, signing), options));
}

/** One may be lost with each of two instances that end one after the other. */
const MAX_ATTEMPTS = 3;

/** Asks anew where nobody has the answer: what may have been signed then is for a key that is gone. */
async function askAnew<T>(ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await ask();
    } catch (cause) {
      if (!(cause instanceof AppError) || cause.code !== "answer_lost") throw cause;
      if (attempt === MAX_ATTEMPTS) throw new AppError("upstream_failure", cause.message, { cause });
    }
  }
}

/** The certificate, or the decision about it, and the key that it is for. */
function obtainForKey(
  { authority, createKey }: Pick<ObtainPorts, "authority" | "createKey">,
  { hop, intent }: { readonly hop: Pick<Hop, "name" | "role">; readonly intent: Intent },
  options: ObtainOptions,
): Promise<{ readonly answer: Obtained; readonly key: EphemeralKey }> {
  return askAnew(async () => {
    const key = createKey();
    const request = createSignRequest(hop, intent, key.publicKeyLine);
    return { answer: await obtain(authority, request, options), key };
  });
}

/** The answers that leave a caller with nothing. */
type Refused = Extract<SignAnswer, { kind: "rejected" | "undecided" | "not_granted" }>;

async function settle<Granted extends { readonly kind: "issued" | "decided" | "needs_approval" }>(
  what: string,
  ask: (options: SignOptions) => Promise<Granted | Refused>,
  { signal, onProgress }: ObtainOptions,
): Promise<Granted> {
  let answer: Granted | Refused;
  try {
    answer = await ask({
      signal,
      onWaiting: (approvalId) => onProgress?.(`waiting for approval ${approvalId}`),
    });
  } catch (cause) {
    if (!(cause instanceof AppError) || !["upstream_failure", "answer_lost"].includes(cause.code)) {
      throw cause;
    }
    throw new AppError(cause.code, `upstream failure: ${what}: ${cause.message}`, { cause });
  }
  switch (answer.kind) {
    case "rejected":
      throw new AppError("denied", `${what}: signing rejected (${answer.status}): ${answer.detail}`);
    case "undecided":
      throw new AppError("approval_required", `${what}: ${describeUndecided(answer)}`);
    case "not_granted":
      throw new AppError("denied", `${what}: approval not granted (${answer.status}): ${answer.detail}`);
    default:
      return answer;
  }
}

/**
 * Gets a certificate, each for a key of its own, for every hop of a route in the order of dialling. A human who is
 * waited for may take longer than what is known of the hosts, or than the bastions' certificates, is good for: the
 * route is found again then.
 *
 * @throws {AppError} as {@linkcode obtain}, {@linkcode refreshHosts} and {@linkcode routeTo} do
 */
export async function obtainRoute(
  ports: ObtainPorts,
  { route: known, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
): Promise<RouteAuthority | Extract<Obtained, { kind: "needs_approval" }>> {
  const early = await obtainBastions(ports, { route: known, intent }, options);
  const { name } = targetOf(known);
  const { answer, key } = await obtainForKey(
    ports,
    { hop: { name, role: "target" }, intent },
    options,
  );
  if (answer.kind === "needs_approval") return answer;
  if (answer.kind === "decided") throw noCertificate();
  const { certificate, serial, decision, elevationPrefix, shim, waited } = answer;
  const route = waited ? routeTo(await refreshHosts(ports, options.signal), name) : known;
  const bastions = waited ? await obtainBastions(ports, { route, intent }, options) : early;
  const target = loginOf(targetOf(route), certificate, key);
  const [first, ...others] = [...bastions.map(({ login }) => login), target];
  const hops: HopLogins = [first ?? target, ...others];
  const bastionSerials = [...new Set([...early, ...bastions].map(({ serial }) => serial))];
  return { kind: "issued", route, hops, serial, bastionSerials, decision, elevationPrefix, shim };
}

async function obtainBastions(
  ports: ObtainPorts,
  { route, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
): Promise<readonly { readonly login: HopLogin; readonly serial: bigint }[]> {
  const bastions = [];
  for (const hop of route) {
    if (hop.role === "target") continue;
    const { answer, key } = await obtainForKey(ports, { hop, intent }, options);
    switch (answer.kind) {
      case "issued":
        bastions.push({ login: loginOf(hop, answer.certificate, key), serial: answer.serial });
        break;
      case "needs_approval":
        throw approvalRequired(hop.name, answer.rule);
      case "decided":
        throw noCertificate();
      default:
        answer satisfies never;
    }
  }
  return bastions;
}

/** The sign request for one hop. */
export function createSignRequest(
  { name, role }: Pick<Hop, "name" | "role">,
  intent: Intent,
  publicKey: string,
): CertificateRequest {
  return {
    host: name,
    role,
    purpose: intent.purpose,
    ttl_seconds: intent.ttlSeconds,
    public_key: publicKey,
    end_user: intent.caller,
    end_user_groups: intent.callerGroups,
    ...(intent.bearerToken === undefined ? {} : { bearer_token: intent.bearerToken }),
    ...(intent.reason ? { reason: intent.reason } : {}),
    ...(intent.sessionId === undefined ? {} : { session_id: intent.sessionId }),
    ...(role === "target" ? intent.target : {}),
  };
}

/** The life of a certificate to ask for: the maximum where none, a negative one or more is asked for. */
export function clampTtl(ttlSeconds: number, maxTtlSeconds: number): number {
  return ttlSeconds > 0 && ttlSeconds <= maxTtlSeconds ? ttlSeconds : maxTtlSeconds;
}

/**
 * What to say where a human has to approve and nobody has been asked.
 *
 * @param asked `approved`: the one in the chat has approved, and the signer takes no notice
 */
export function approvalRequired(
  host: string,
  rule: string,
  asked: "approved" | "unasked" = "unasked",
): AppError {
  const remedy = asked === "approved"
    ? "the approval in the chat does not count, because the signer does not list this broker with self_approve; " +
      "approve it via the control plane, or with broker-ctl"
    : "approve it in-chat (if enabled), via the control plane, or with broker-ctl";
  return new AppError(
    "approval_required",
    `command on ${quoteText(host)} requires human approval (${rule}); ${remedy}`,
  );
}

// Scripts read the id with the pattern `(id …)`.
function describeUndecided({ approvalId, why }: Extract<SignAnswer, { kind: "undecided" }>): string {
  switch (why) {
    case "not_configured":
      return `operation requires human approval (id ${approvalId}); client is not configured to wait`;
    case "too_many":
      return `operation requires human approval (id ${approvalId}); too many requests wait for approval already`;
    case "deadline":
      return `approval not granted within deadline (id ${approvalId})`;
    default:
      return why satisfies never;
  }
}

function loginOf({ name, host }: Hop, certificate: string, key: EphemeralKey): HopLogin {
  return { name, addr: host.addr, hostKey: host.host_key, user: host.user, certificate, key };
}

function noCertificate(): AppError {
  return new AppError("upstream_failure", "upstream failure: signing service returned no certificate");
}
