import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import {
  checkSignFields,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  type SignResponse,
} from "@gateway/shared/wire";
import type { ApprovalTarget } from "../approvals/approval.ts";

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
