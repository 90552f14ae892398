import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { checkCaller, isHostIdentity } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import type { ControlPlaneConfig } from "../config/config.ts";
import { stringifyJson } from "@gateway/shared/json";

/**
 * Whether a caller may use the signing path: those in `sign_callers`, or without such a list all but approvers. No host,
 * whose identity lies on that host.
 */
function maySign(
  { sign_callers, approval }: Pick<ControlPlaneConfig, "sign_callers" | "approval">,
  caller: string,
): boolean {
  if (isHostIdentity(caller)) return false;
  return sign_callers.length > 0 ? sign_callers.includes(caller) : !approval.callers.includes(caller);
}

/** Whether a caller may see approvals and decide on them; no host either. */
export function mayApprove({ approval }: Pick<ControlPlaneConfig, "approval">, caller: string): boolean {
  return !isHostIdentity(caller) && approval.callers.includes(caller);
}

/**
 * Lets brokers pass, and records everybody else.
 *
 * @param route what was asked for, for the record
 * @throws {AppError} `forbidden`; `invalid_request` for a name that could not be told to the signer unchanged
 */
export async function requireSigner(ports: ControlPlanePorts, peer: Peer, route: string): Promise<void> {
  if (!maySign(ports.config, peer.caller)) {
    return await refuse(ports, peer, { route, err: "not authorised to request signing" });
  }
  // Blanks at the end of a header are lost on the way: the signer would take the caller for somebody else.
  checkCaller(peer.caller);
}

/**
 * Lets approvers pass, and records everybody else.
 *
 * @param err what the others are told
 * @throws {AppError} `forbidden`
 */
export async function requireApprover(
  ports: ControlPlanePorts,
  peer: Peer,
  { route, err = "not authorised" }: { readonly route: string; readonly err?: string },
): Promise<void> {
  if (!mayApprove(ports.config, peer.caller)) await refuse(ports, peer, { route, err });
}

async function refuse(
  ports: ControlPlanePorts,
  peer: Peer,
  { route, err }: { readonly route: string; readonly err: string },
): Promise<never> {
  await ports.record({ caller: peer.caller, command: route, outcome: "denied", err });
  throw new AppError("forbidden", err);
}

/**
 * Whether a request comes from a page of ours, as its browser says: `no_evidence` is a program, or a browser that
 * says nothing.
 */
export type RequestOrigin = "same_origin" | "no_evidence" | "cross_origin";

/**
 * Judges `Sec-Fetch-Site` and `Origin` (Fetch Metadata; Fetch standard, section 3.2), which scripts cannot set.
 * Whatever points elsewhere, or is not understood, is `cross_origin`.
 *
 * @param own the origin of our pages as the operator configured it; without one no `Origin` is ours. What a request
 * says of the host that it was sent to proves nothing: whoever sends it can have chosen it
 */
export function checkSameOrigin(headers: Headers, own: string | undefined): RequestOrigin {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  if (site !== null && site !== "same-origin" && site !== "none") return "cross_origin";
  if (origin !== null && origin !== own) {
    // Our pages have no referrer, and their forms then no origin; but that alone proves nothing.
    return origin === "null" && site === "same-origin" ? "same_origin" : "cross_origin";
  }
  if (site === null) return origin === null ? "no_evidence" : "same_origin";
  return site === "same-origin" ? "same_origin" : "no_evidence";
}

/** The origin of our pages, from the template of their addresses. */
export function originOf(approvalUrlTemplate: string): string | undefined {
  return URL.parse(approvalUrlTemplate)?.origin;
}

/** A JSON answer; 64-bit serials stay exact. */
export function answer(body: unknown, status = 200): Response {
  return jsonAnswer(`${stringifyJson(body)}\n`, { status });
}

/** Likewise of a text that is JSON already. */
export function jsonAnswer(
  text: string,
  { status = 200, headers = {} }: {
    readonly status?: number;
    /** Beside those that every answer has, or in their place. */
    readonly headers?: Readonly<Record<string, string>>;
  },
): Response {
  return new Response(text, {
    status,
    headers: {
      "content-type": "application/json",
      // A browser brings an approver's certificate to whatever page asks for this as a script or a style sheet.
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
      ...headers,
    },
  });
}
