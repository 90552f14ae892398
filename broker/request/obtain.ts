import type { Clock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { HostInfo, Purpose, SignRequest, WireDecision } from "@gateway/shared/wire";
import type {
  Authority,
  CertificateRequest,
  Requester,
  SignAnswer,
  SignOptions,
} from "../authority/authority.ts";
import type { HopLogin, HopLogins } from "../ssh/connect.ts";
import type { EphemeralKey } from "../ssh/login.ts";
import { buildRoute, type Hop, type Inventory, type Route, targetOf } from "./route.ts";

interface Intent extends Requester {
  readonly purpose: Purpose;
  readonly ttlSeconds: number;
  readonly sessionId?: string;
  /** The fields for the target only: bastions only forward. */
  readonly target: Partial<SignRequest>;
}

export interface ObtainPorts {
  readonly authority: Authority;
  readonly hosts: Inventory<HostInfo>;
  readonly clock: Clock;
  readonly createKey: () => EphemeralKey;
}

export interface RouteAuthority {
  readonly kind: "issued";
  /**
   * The route that the logins are for. After a wait for a human, it may differ from the route before the
   * wait.
   */
  readonly route: Route;
  readonly hops: HopLogins;
  readonly serial: bigint;
  /** The serials of all bastion certificates that are still valid, including those of unused certificates. */
  readonly bastionSerials: readonly bigint[];
  readonly decision: WireDecision | undefined;
  /** The prefix for the commands of an elevated session. Empty: no prefix. */
  readonly elevationPrefix: string;
  /** The shim that the target's certificate is locked to, in a session on a sealed host. */
  readonly shim: string | undefined;
}

type ObtainOptions = Pick<SignOptions, "signal"> & Pick<Requester, "onProgress">;

type Refused = Extract<SignAnswer, { kind: "rejected" | "undecided" | "not_granted" }>;
type Keyed = Exclude<SignAnswer, Refused> & { readonly key: EphemeralKey };
type Gated = Extract<SignAnswer, { kind: "needs_approval" }>;

/** Two instances that stop in succession can each lose an answer. */
const MAX_ATTEMPTS = 3;

/**
 * Requests a certificate, a token or a decision, and waits for a human if an approval was requested. If an
 * answer is lost, the request is sent again with a new key. The lost certificate is useless, because its key
 * was discarded.
 * @throws {AppError} `denied` if the authority or the human denies the request, `approval_required` if the
 * human has not decided, `upstream_failure` if there is no usable answer
 */
export async function ask<Granted extends { readonly kind: "issued" | "decided" | "needs_approval" }>(
  what: string,
  request: (options: SignOptions) => Promise<Granted | Refused>,
  { signal, onProgress }: ObtainOptions,
): Promise<Granted> {
  const onWaiting = (approvalId: string) => onProgress?.(`waiting for approval ${approvalId}`);
  for (let attempt = 1;; attempt++) {
    let answer: Granted | Refused;
    try {
      answer = await request({ signal, onWaiting });
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
        throw new AppError("approval_required", `${what}: ${UNDECIDED[answer.why](answer.approvalId)}`);
      case "not_granted":
        throw new AppError("denied", `${what}: approval not granted (${answer.status}): ${answer.detail}`);
      default:
        return answer;
    }
  }
}

// Scripts read the ID with the pattern `(id …)`.
const UNDECIDED = {
  not_configured: (id: string) =>
    `operation requires human approval (id ${id}); client is not configured to wait`,
  too_many: (id: string) =>
    `operation requires human approval (id ${id}); too many requests wait for approval already`,
  deadline: (id: string) => `approval not granted within deadline (id ${id})`,
} as const;

/** Requests a certificate, or the decision about it. Each attempt has its own key. */
function askForHop(
  { authority, createKey }: ObtainPorts,
  { hop, intent }: { readonly hop: Hop; readonly intent: Intent },
  options: ObtainOptions,
): Promise<Keyed> {
  return ask<Keyed>(`signing cert for ${quoteText(hop.name)}`, async (signing) => {
    const key = createKey();
    return { ...await authority.sign(createSignRequest(hop, intent, key.publicKeyLine), signing), key };
  }, options);
}

/** @throws {AppError} as {@linkcode ask} does */
export async function obtainDecision(
  ports: ObtainPorts,
  request: { readonly hop: Hop; readonly intent: Intent },
  options: ObtainOptions,
): Promise<Exclude<Keyed, { kind: "issued" }>> {
  const answer = await askForHop(ports, request, options);
  if (answer.kind === "issued") throw new TypeError("A dry run was answered with a certificate");
  return answer;
}

/**
 * Gets a certificate for every hop of a route, in the order of connecting. The host list or the bastions'
 * certificates may expire during the wait for an approval, so the route is looked up again after such a wait.
 * @throws {AppError} as {@linkcode ask}, {@linkcode Inventory.fresh} and {@linkcode buildRoute} do
 */
export async function obtainRoute(
  ports: ObtainPorts,
  { route: known, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
): Promise<RouteAuthority | Gated> {
  const early = await obtainBastions(ports, { route: known, intent }, options);
  const target = await obtainLogin(ports, { hop: targetOf(known), intent }, options);
  if (target.kind === "needs_approval") return target;
  const { serial, decision, elevationPrefix, shim, waited } = target;
  let [route, bastions] = [known, early];
  if (waited) {
    const wait = { clock: ports.clock, signal: options.signal };
    route = buildRoute(await ports.hosts.fresh("host list", wait), targetOf(known).name);
    bastions = await obtainBastions(ports, { route, intent }, options);
  }
  const last = loginTo(targetOf(route), target);
  const [first = last, ...others] = [...bastions.map(({ login }) => login), last];
  const bastionSerials = [...new Set([...early, ...bastions].map(({ serial }) => serial))];
  return {
    ...{ kind: "issued", route, hops: [first, ...others], serial, bastionSerials },
    ...{ decision, elevationPrefix, shim },
  };
}

async function obtainBastions(
  ports: ObtainPorts,
  { route, intent }: { readonly route: Route; readonly intent: Intent },
  options: ObtainOptions,
) {
  const bastions = [];
  for (const hop of route.slice(0, -1)) {
    const granted = await obtainLogin(ports, { hop, intent }, options);
    if (granted.kind === "needs_approval") throw approvalRequired(hop.name, granted.rule);
    bastions.push({ login: loginTo(hop, granted), serial: granted.serial });
  }
  return bastions;
}

async function obtainLogin(...request: Parameters<typeof askForHop>) {
  const answer = await askForHop(...request);
  if (answer.kind !== "decided") return answer;
  throw new AppError("upstream_failure", "upstream failure: signing service returned no certificate");
}

function loginTo(
  { name, host: { addr, host_key: hostKey, user } }: Hop,
  { certificate, key }: Pick<HopLogin, "certificate" | "key">,
): HopLogin {
  return { name, addr, hostKey, user, certificate, key };
}

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
    ...describeRequester(intent),
    ...(intent.sessionId !== undefined && { session_id: intent.sessionId }),
    ...(role === "target" && intent.target),
  };
}

/** The fields of a sign request that name the caller. */
export function describeRequester({ caller, callerGroups, bearerToken, reason }: Requester) {
  return {
    end_user: caller,
    end_user_groups: callerGroups,
    ...(bearerToken !== undefined && { bearer_token: bearerToken }),
    ...(reason && { reason }),
  };
}

/** The fields of a sign request that go beyond the account of the host. */
export function describeElevation(
  { sudo, sudoUser, pty }: Readonly<{ sudo: boolean; sudoUser: string; pty: boolean }>,
) {
  return {
    ...(sudo && { sudo: true }),
    ...(sudoUser !== "" && { sudo_user: sudoUser }),
    ...(pty && { pty: true }),
  };
}

export function badRequest(text: string, cause?: unknown): AppError {
  return new AppError("invalid_request", `bad request: ${text}`, { cause });
}

/** Runs a step. A failure of a machine behind the broker is reported with a prefix. */
export async function prefixed<T>(prefix: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    if (!(cause instanceof AppError) || cause.code !== "upstream_failure") throw cause;
    throw new AppError("upstream_failure", `${prefix}${cause.message}`, { cause });
  }
}

/** The lifetime to request. The maximum replaces a value that is 0, negative or above the maximum. */
export function clampTtl(ttlSeconds: number, maxTtlSeconds: number): number {
  return ttlSeconds > 0 && ttlSeconds <= maxTtlSeconds ? ttlSeconds : maxTtlSeconds;
}

/**
 * The refusal of an action that a human has to approve.
 * @param asked `approved`: the human in the chat has approved, and the signer does not accept that approval
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
