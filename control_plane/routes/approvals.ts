import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody, requireJsonType } from "@gateway/shared/http";
import { approvalDecision } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import { checkSameOrigin, originOf, requireApprover } from "./roles.ts";
import { answer } from "./answer.ts";
import { decideApproval } from "./decide.ts";

const MAX_DECISION_BYTES = 16 * 1024;

/** `GET /v1/approvals`: all that are not forgotten yet, those that wait first. */
export async function handleListApprovals(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireApprover(ports, peer, { route: "GET /v1/approvals" });
  return answer(ports.registry.list().map((approval) => ports.registry.describe(approval)));
}

/** `POST /v1/approvals/{id}`: a human's decision. */
export async function handleDecide(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  await requireApprover(ports, peer, { route: "POST /v1/approvals/{id}", err: "not authorised to approve" });
  // A browser adds the approver's certificate to whatever a page makes it send.
  if (
    checkSameOrigin(request.headers, originOf(ports.config.approval.approval_url_template)) === "cross_origin"
  ) {
    throw new AppError("forbidden", "decisions from other sites are refused");
  }
  requireJsonType(request);
  const decision = await readJsonBody(request, { maxBytes: MAX_DECISION_BYTES, schema: approvalDecision });
  return answer(await decideApproval(ports, { id, approver: peer.caller, decision }));
}
