import assert from "node:assert/strict";
import { approverKey, decisionText, sshProof } from "../testing/mod.ts";
import type { ApprovalSubject } from "../wire/mod.ts";
import { approvalsConfig, compileApprovers } from "./approvers.ts";
import { verifySignedAt } from "./verify.ts";

const ANN = approverKey(3);
const EXPIRY = 1_700_000_600_000;

Deno.test.each([
  { name: "at the end of its life", now: EXPIRY, isValid: true },
  { name: "after its life", now: EXPIRY + 1, isValid: false },
  { name: "at a time that cannot be read", now: NaN, isValid: false },
])("a decision is verified $name", ({ now, isValid }) => {
  const config = { installation_id: "test-installation", approvers: { ann: { ssh_keys: [ANN.line] } } };
  const compiled = compileApprovers(approvalsConfig.parse(config));
  assert.ok(compiled.kind === "ok");
  const proof = sshProof(decisionText({} as ApprovalSubject, {}), ANN);
  assert.equal(typeof verifySignedAt(proof, compiled.approvers, now) !== "string", isValid);
});
