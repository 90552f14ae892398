import assert from "node:assert/strict";
import { subjectOf } from "@gateway/shared/proofs";
import { hasInvisible } from "@gateway/shared/text";
import { type ApprovalRecord, signRequest } from "@gateway/shared/wire";
import type { Call } from "../kit/command.ts";
import { signApproval } from "./sign.ts";

Deno.test("approval allow shows the installation and every character that a control plane sends", async () => {
  let shown = "";
  const call = { terminal: { err: (text: string) => void (shown += text) } } as Call;
  const request = signRequest.parse({
    host: "web01",
    role: "target",
    purpose: "oneshot",
    command: "id\u3164",
  });
  const subject = subjectOf({ ...request, end_user_groups: ["\u009b2J"] }, "broker-1");
  const signed = { required: 1, installation: "lab-12345", subject, approved_by: [] };
  const signing = signApproval(call, { id: "1" } as ApprovalRecord, signed, { signKey: "k", as: "ann" });
  await assert.rejects(signing, /without a terminal/);
  assert.match(shown, /^ {2}installation +"lab-12345"$/m);
  assert.equal(hasInvisible(shown.replaceAll("\n", "")), false, shown);
});
