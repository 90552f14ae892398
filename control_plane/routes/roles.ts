import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { checkCaller, isHostIdentity } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";

/**
 * True for the callers in `approval.callers` and for people who have signed in, except hosts: their identity is a file
 * on the host.
 */
export function mayApprove(
  { config, hasSessions }: Pick<ControlPlanePorts, "config" | "hasSessions">,
  caller: string,
): boolean {
  return !isHostIdentity(caller) && (hasSessions || config.approval.callers.includes(caller));
}

/**
 * Accepts brokers and records all others: the callers in `sign_callers`, or without such a list all but approvers.
 *
 * @throws {AppError} `forbidden`; `invalid_request` for a name that cannot be sent to the signer unchanged
 */
export async function requireSigner(ports: ControlPlanePorts, caller: string, route: string): Promise<void> {
  const { sign_callers, approval } = ports.config;
  const isBroker = sign_callers.length > 0
    ? sign_callers.includes(caller)
    : !approval.callers.includes(caller);
  if (isHostIdentity(caller) || !isBroker) {
    return await deny(ports, caller, route, "not authorised to request signing");
  }
  // HTTP removes spaces at the end of a header, so the signer would see another caller.
  checkCaller(caller);
}

/**
 * Accepts approvers and records all others.
 *
 * @param err the text for the others
 * @throws {AppError} `forbidden`
 */
export async function requireApprover(
  ports: ControlPlanePorts,
  caller: string,
  route: string,
  err = "not authorised",
): Promise<void> {
  if (!mayApprove(ports, caller)) await deny(ports, caller, route, err);
}

async function deny(ports: ControlPlanePorts, caller: string, command: string, err: string): Promise<never> {
  await ports.record({ caller, command, outcome: "denied", err });
  throw new AppError("forbidden", err);
}

/** `no_evidence`: a program, or a browser that sends neither header. */
export type RequestOrigin = "same_origin" | "no_evidence" | "cross_origin";

/**
 * Judges `Sec-Fetch-Site` and `Origin` (Fetch Metadata; Fetch standard, section 3.2), which scripts cannot set. Any value
 * that is unknown or names another site is `cross_origin`.
 *
 * @param template of the addresses of our pages, as configured; its origin is the only one of ours. The Host header
 * proves nothing, because the sender chooses it
 */
export function checkSameOrigin(headers: Headers, template: string): RequestOrigin {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site !== null && site !== "same-origin" && site !== "none") return "cross_origin";
  if (origin !== null && origin !== URL.parse(template)?.origin) {
    // Our pages have no referrer, so their forms have no origin; that alone proves nothing.
    return origin === "null" && site === "same-origin" ? "same_origin" : "cross_origin";
  }
  if (site === null) return origin === null ? "no_evidence" : "same_origin";
  return site === "same-origin" ? "same_origin" : "no_evidence";
}

/** A JSON answer; 64-bit serials stay exact. */
export function answer(body: unknown, status = 200): Response {
  return jsonAnswer(`${stringifyJson(body)}\n`, { status });
}

/** An answer whose text is JSON already. */
export function jsonAnswer(
  text: string,
  { status = 200, headers = {} }: {
    readonly status?: number;
    readonly headers?: Readonly<Record<string, string>>;
  },
): Response {
  return new Response(text, {
    status,
    headers: {
      "content-type": "application/json",
      // A page of another site could load this as a script or style sheet, with the approver's certificate.
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
      ...headers,
    },
  });
}
