import { describeFault } from "@gateway/shared/errors";
import type { GatedCommand } from "@gateway/shared/policy";
import type { SignContext } from "./judge.ts";

/** Approve-and-learn: what was issued stands whatever becomes of the waiver, and the log says what became of it. */
export async function learnWaiver(
  { ports, snapshot, peer, request, caller }: SignContext,
  decision: { readonly requireApproval: boolean; readonly approvalWaived: boolean },
  gated: GatedCommand,
): Promise<void> {
  const facts = {
    caller,
    host: request.host,
    host_name: request.host,
    approval_id: request.learn_approval_id,
    approved_by: request.learn_approver,
  };
  let recorded = "";
  try {
    // A freeze that another signer has acknowledged takes the subject's waivers away for good.
    ports.instances.requireFresh();
    const outcome = await ports.live.learnWaiver({
      host: gated.host,
      caller: gated.caller,
      endUser: gated.endUser,
      sudo: gated.sudo,
      sudoUser: gated.sudoUser,
      command: gated.command,
      fileTransfer: gated.fileTransfer,
      contentSha256: gated.contentSha256,
      peer: peer.caller,
      gate: decision.requireApproval ? "approved" : decision.approvalWaived ? "waived" : "none",
      ttlSeconds: request.learn_ttl_seconds,
      maxTtlSeconds: snapshot.config.max_grant_ttl_seconds,
      approver: request.learn_approver,
      approvalId: request.learn_approval_id,
    }, {
      async made({ id, waiveApproval, contentSha256 }) {
        await ports.gate.require({
          ...facts,
          command: `approval-waiver ${id}`,
          ...(contentSha256 !== "" && { body_sha256: contentSha256 }),
          policy_rule: `waive_approval:${waiveApproval.join(",")}`,
          outcome: "approval-waiver-created",
        });
        recorded = id;
      },
      // What is thrown then is recorded below, as every other failure is.
      notStored: () => Promise.resolve(),
    });
    if (outcome.kind === "skipped") {
      await ports.gate.bestEffort({
        ...facts,
        command: "approval-waiver ",
        outcome: "approval-waiver-skipped",
        err: outcome.reason,
      });
    }
  } catch (error) {
    await ports.gate.bestEffort({
      ...facts,
      command: `approval-waiver ${recorded}`,
      outcome: "approval-waiver-failed",
      err: describeFault(error),
    });
  }
}
