import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { Purpose, SignRequest, WireDecision } from "@gateway/shared/wire";
import type { Authority, CertificateRequest, SignAnswer, SignOptions } from "../authority/authority.ts";
import { type Hop, type HostsPorts, refreshHosts, type Route, routeTo, targetOf } from "./route.ts";
import type { HopLogin, HopLogins } from "../ssh/connect.ts";
import type { EphemeralKey } from "../ssh/login.ts";

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
type TargetIntent = Partial<
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

/** The answers that give a caller nothing. */
type Refused = Extract<SignAnswer, { kind: "rejected" | "undecided" | "not_granted" }>;

/** Two instances that stop one after the other can lose one answer each. */
const MAX_ATTEMPTS = 3;

/**
 * Requests a certificate, a token or a decision, and waits for a human if an approval has been requested. A lost
 * answer is requested again: nobody has the certificate that may have been signed.
 *
 * @throws {AppError} `denied` when the authority or the human refuses, `approval_required` when the human has
 * not decided, `upstream_failure` when there is no usable answer
 */
export async function ask<Granted extends { readonly kind: "issued" | "decided" | "needs_approval" }>(
  what: string,
  request: (options: SignOptions, attempt: number) => Promise<Granted | Refused>,
  { signal, onProgress }: ObtainOptions,
): Promise<Granted> {
  const onWaiting = (approvalId: string) => onProgress?.(`waiting for approval ${approvalId}`);
  for (let attempt = 1;; attempt++) {
    let answer: Granted | Refused;
    try {
      answer = await request({ signal, onWaiting }, attempt);
    } catch (cause) {
      if (!(cause instanceof AppError) || !["upstream_failure", "answer_lost"].includes(cause.code)) {
        throw cause;
      }
      if (cause.code === "answer_lost" && attempt < MAX_ATTEMPTS) continue;
      throw new AppError("upstream_failure", `upstream failure: ${what}: ${cause.message}`, { cause });
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
}

type Gated = Extract<SignAnswer, { kind: "needs_approval" }>;

/** Requests a certificate, or the decision about it, for a key of its own in each attempt. */
async function askForHop(
  { authority, createKey }: ObtainPorts,
  { hop, intent }: { readonly hop: Hop; readonly intent: Intent },
  options: ObtainOptions,
) {
  let key = createKey();
  const answer = await ask(`signing cert for ${quoteText(hop.name)}`, (signing, attempt) => {
    if (attempt > 1) key = createKey();
    return authority.sign(createSignRequest(hop, intent, key.publicKeyLine), signing);
  }, options);
  return { answer, key };
}

/**
 * Gets a certificate, each for a key of its own, for every hop of a route in the order of dialing. An approval can
 * take longer than the host list or the bastions' certificates stay valid: after such a wait the route is looked up
 * again.
 *
 * @throws {AppError} as {@linkcode ask}, {@linkcode refreshHosts} and {@linkcode routeTo} do
 */
export async function obtainRoute(
  ports: ObtainPorts,
  { route: known, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
): Promise<RouteAuthority | Gated> {
  const early = await obtainBastions(ports, { route: known, intent }, options);
  const { answer, key } = await askForHop(ports, { hop: targetOf(known), intent }, options);
  if (answer.kind === "needs_approval") return answer;
  if (answer.kind === "decided") throw noCertificate();
  const { certificate, serial, decision, elevationPrefix, shim, waited } = answer;
  const route = waited ? routeTo(await refreshHosts(ports, options.signal), targetOf(known).name) : known;
  const bastions = waited ? await obtainBastions(ports, { route, intent }, options) : early;
  const target = loginOf(targetOf(route), certificate, key);
  const [first, ...others] = [...bastions.map(({ login }) => login), target];
  const hops: HopLogins = [first ?? target, ...others];
  const bastionSerials = [...new Set([...early, ...bastions].map(({ serial }) => serial))];
  return { kind: "issued", route, hops, serial, bastionSerials, decision, elevationPrefix, shim };
}

/**
 * Gets the decision about a dry run.
 *
 * @throws {AppError} as {@linkcode ask} does
 */
export async function obtainDecision(
  ports: ObtainPorts,
  { hop, intent }: { readonly hop: Hop; readonly intent: Intent },
  options: ObtainOptions,
): Promise<Gated | Extract<SignAnswer, { kind: "decided" }>> {
  const { answer } = await askForHop(ports, { hop, intent }, options);
  if (answer.kind === "issued") throw new TypeError("A dry run was answered with a certificate");
  return answer;
}

async function obtainBastions(
  ports: ObtainPorts,
  { route, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
): Promise<readonly { readonly login: HopLogin; readonly serial: bigint }[]> {
  const bastions = [];
  for (const hop of route) {
    if (hop.role === "target") continue;
    const { answer, key } = await askForHop(ports, { hop, intent }, options);
    if (answer.kind === "needs_approval") throw approvalRequired(hop.name, answer.rule);
    if (answer.kind === "decided") throw noCertificate();
    bastions.push({ login: loginOf(hop, answer.certificate, key), serial: answer.serial });
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
