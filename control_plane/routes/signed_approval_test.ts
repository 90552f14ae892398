import assert from "node:assert/strict";
import { parseDocument, subjectOf } from "@gateway/shared/proofs";
import { approverKey, decisionText, sshProof } from "@gateway/shared/testing";
import type { ApprovalProof, ApprovalRecord, SignRequest } from "@gateway/shared/wire";
import { allow, type FakeReply } from "../testing/fake_signer.ts";
import { startControlPlane } from "../testing/memory_control_plane.ts";
import { draftOf } from "../testing/sample_approval.ts";

const KEY = approverKey(3);
const RESTART = { command: "systemctl restart nginx" };

/** A control plane whose signer requires two signatures and trusts the names in the documents. */
async function startSigned(problem?: string) {
  const plane = await startControlPlane();
  plane.signer.reply = (sent): FakeReply => {
    const request = sent.body as SignRequest;
    const signers = request.approval_proofs.map(({ document }) => parseDocument(document)?.approver ?? "");
    const approved_by = [...new Set(signers)];
    if (request.approved) return allow(sent);
    return {
      body: {
        decision: { allowed: true, require_approval: true, matched_rule: "require_approval:^systemctl" },
        signed_approval: {
          ...{ required: 2, installation: "lab-12345", subject: subjectOf(request, "broker-1"), approved_by },
          ...(problem !== undefined && approved_by.length > 0 && { problem }),
        },
      },
    };
  };
  return { plane, id: await plane.park(RESTART) };
}

function proofOf(approver: string, learn_ttl_seconds = 0): ApprovalProof {
  const subject = subjectOf(draftOf(RESTART).request, "broker-1");
  return sshProof(decisionText(subject, { approver, learn_ttl_seconds }), KEY);
}

Deno.test("a request that two people must sign is approved by the second signature", async () => {
  const { plane, id } = await startSigned();
  const [ann, bob] = [proofOf("ann", 900), proofOf("bob", 60)];
  const first = await plane.decide(id, { approve: true, proof: ann });
  assert.deepEqual([
    first.status,
    first.body.status,
    (first.body as unknown as ApprovalRecord).signed_approval?.approved_by,
  ], [
    200,
    "pending",
    ["ann"],
  ]);
  assert.equal(plane.log.entries.at(-1)?.outcome, "approval-signed");
  const second = await plane.decide(id, { approve: true, proof: bob }, "approver-2");
  assert.deepEqual([second.status, second.body.status], [200, "approved"]);
  assert.equal(plane.log.entries.at(-1)?.outcome, "approval-decision-allow-learn");
  assert.equal((await plane.get(`/v1/sign/result/${id}`, "broker-1")).status, 200);
  const { approved, approval_proofs, learn_ttl_seconds } = plane.signer.signed.at(-1) ?? {};
  assert.deepEqual([approved, approval_proofs, learn_ttl_seconds], [true, [ann, bob], 60]);
});

Deno.test.each([
  { name: "without a proof", proofs: [undefined], status: 400, detail: /must be signed/ },
  {
    name: "with a proof that the signer rejects",
    proofs: [proofOf("ann")],
    problem: "expired",
    status: 400,
    detail: /expired/,
  },
  {
    name: "twice by one person",
    proofs: [proofOf("ann"), proofOf("ann")],
    status: 409,
    detail: /has signed already/,
  },
])(
  "an approval $name is rejected, and the request stays pending",
  async ({ proofs, problem, status, detail }) => {
    const { plane, id } = await startSigned(problem);
    let answer;
    for (const proof of proofs) answer = await plane.decide(id, { approve: true, proof });
    assert.equal(answer?.status, status);
    assert.match(String(answer?.body["detail"]), detail);
    assert.equal((await plane.get(`/v1/sign/result/${id}`, "broker-1")).status, 202);
  },
);

Deno.test("a signature under a request that the policy denies now leaves it pending", async () => {
  const { plane, id } = await startSigned();
  plane.signer.reply = () => ({
    body: { decision: { allowed: false, reason: "denied", require_approval: false, matched_rule: "" } },
  });
  const { status, body } = await plane.decide(id, { approve: true, proof: proofOf("ann") });
  assert.equal(status, 409);
  assert.match(String(body["detail"]), /the signer now denies this request/);
  assert.equal((await plane.get(`/v1/sign/result/${id}`, "broker-1")).status, 202);
});

Deno.test("a denial needs no signature", async () => {
  const { plane, id } = await startSigned();
  const { status, body } = await plane.decide(id, { approve: false });
  assert.deepEqual([status, body.status], [200, "denied"]);
});

Deno.test("identical requests that need signatures are not decided together", async () => {
  const { plane, id } = await startSigned();
  const other = await plane.park(RESTART);
  const list = (await plane.get("/v1/approvals", "approver-1")).body as unknown as readonly { id: string }[];
  assert.deepEqual(list.map((each) => each.id).sort(), [id, other].sort());
});
