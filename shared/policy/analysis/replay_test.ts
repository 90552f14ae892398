import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { compileSample, sampleConfig } from "@gateway/shared/testing";
import { outcomeOf } from "../recorded.ts";
import { type ReplayRecord, startReplay } from "./replay.ts";

interface Fields extends Partial<ReplayRecord> {
  /** Members of the recorded decision. */
  readonly facts?: Readonly<Record<string, unknown>>;
  /** The members of the caller's row. */
  readonly krlCallers?: readonly string[];
  readonly row?: { readonly only_via?: readonly string[]; readonly require_verified_end_user?: boolean };
}

/** Replays a record, by default one that the config decides as recorded, and then more with these changes. */
function replayAll(
  { facts, row, krlCallers = [], ...fields }: Fields,
  ...more: readonly Partial<ReplayRecord>[]
) {
  const { command_line = "uptime" } = fields;
  const command_policy = {
    mode: "allowlist",
    allow: ["^uptime$", "^reboot$"],
    require_approval: ["^reboot$"],
  } as const;
  const callers = row === undefined ? {} : { "broker-1": { allowed_groups: ["web"], ...row } };
  const policy = compileSample(sampleConfig({ groups: ["web"], command_policy }, { callers }));
  const replay = startReplay({ policy, trustedForwarders: ["control-plane"], krlCallers });
  const record = {
    ...{ time: "t", outcome: "issued", caller: "broker-1", host_name: "web01", command_line },
    command: "role=target purpose=oneshot user=alice",
    command_sha256: createHash("sha256").update(command_line).digest("hex"),
    decision: JSON.stringify({ outcome: "allowed", groups: null, ...facts }),
    ...fields,
  };
  [{}, ...more].forEach((changes) => replay.add({ ...record, ...changes }));
  return replay.finish();
}

const DIRECT = "direct requests not allowed for this caller";
const UNDECIDED = /^no recorded decision/;
const MASKED = /masked/;
const TRUNCATED = /truncated/;
const UNREADABLE = /cannot read/;
const APPROVAL = "require_approval:^reboot$";

Deno.test.each<[name: string, fields: Fields, expected: string | RegExp | number]>([
  ["an allowed command", {}, 1],
  ["a command that is no longer allowed", { command_line: "id" }, "allowed>denied allowlist:no-match"],
  ["a command that now needs an approval", { command_line: "reboot" }, `allowed>approval ${APPROVAL}`],
  ["a command that was denied", { facts: { outcome: "denied" } }, "denied>allowed allow:^uptime$"],
  ["an approval that is not needed", { facts: { outcome: "approval" } }, "approval>allowed allow:^uptime$"],
  ["groups that may use the host", { facts: { groups: ["x", "web"] } }, 1],
  [
    "groups that may not",
    { facts: { groups: ["x"] } },
    'allowed>denied user "alice" not authorised for "web01" (groups)',
  ],
  [
    "an empty list of groups",
    { facts: { groups: [] } },
    `allowed>denied user "alice" not authorised for "web01" (groups)`,
  ],
  ["a host that is gone", { host_name: "gone" }, 'allowed>denied no policy for host: "gone"'],
  ["a caller that lost the group", { caller: "b", row: {} }, "allowed>denied host not authorised"],
  ["a cluster that is gone", {
    command: "target=k8s verb=get resource=pods ns=web name=a",
  }, "allowed>denied unknown cluster"],
  ["a forwarder", { facts: { via: "control-plane" }, row: { only_via: ["control-plane"] } }, 1],
  [
    "another forwarder than that of only_via",
    { facts: { via: "control-plane" }, row: { only_via: ["x"] } },
    `allowed>denied ${DIRECT}`,
  ],
  ["a direct request with only_via", { row: { only_via: ["control-plane"] } }, `allowed>denied ${DIRECT}`],
  [
    "an untrusted forwarder",
    { facts: { via: "x" } },
    "allowed>denied on_behalf_of not allowed for this caller",
  ],
  [
    "a host's identity",
    { krlCallers: ["broker-1"] },
    "allowed>denied callers in krl_callers may fetch the revocation list only",
  ],
  ["a verified end user", { facts: { verified: true }, row: { require_verified_end_user: true } }, 1],
  ["an unverified end user", { row: { require_verified_end_user: true } }, /no verified one/],
  ["a masked command", { command_line: "curl [REDACTED:token]", command_sha256: "0".repeat(64) }, MASKED],
  ["a changed command", { command_sha256: "0".repeat(64) }, MASKED],
  ["a command that was masked completely", { command_line: "", command_sha256: "0".repeat(64) }, MASKED],
  ["a command without its hash", { command_sha256: "" }, MASKED],
  [
    "a command with the text of a mark",
    { command_line: "echo [REDACTED:x]" },
    "allowed>denied shell-parse:pathname expansion",
  ],
  ["a masked end user", { command: "role=target purpose=oneshot user=[REDACTED:mail]" }, MASKED],
  [
    "a truncated command",
    { command_line: "uptime...[TRUNCATED]", command_sha256: "0".repeat(64) },
    TRUNCATED,
  ],
  ["a truncated decision", { decision: '{"outcome":"all...[TRUNCATED]' }, TRUNCATED],
  ["an unknown fact", { facts: { later: true } }, UNREADABLE],
  ["no groups", { decision: '{"outcome":"allowed"}' }, UNREADABLE],
  ["an unknown word", { command: "role=target purpose=oneshot later=1" }, UNREADABLE],
  ["an issue by an earlier release", { decision: "" }, UNDECIDED],
  ["a denial without a decision", { decision: "", outcome: "denied" }, UNDECIDED],
  ["a frozen caller", { decision: "", outcome: "frozen_denied", command: "" }, UNDECIDED],
  ["a stale signer", { decision: "", outcome: "stale_denied", command: "", host_name: "" }, UNDECIDED],
  ["a command that a broker ran", { decision: "", outcome: "executed", command: "uptime" }, 0],
  ["a command that a broker denied", { decision: "", outcome: "denied", command: "uptime" }, 0],
  ["a denied list of hosts", { decision: "", outcome: "frozen_denied", command: "", host_name: "" }, 0],
  ["a command that a grant allowed", { command_line: "id", facts: { outcome: "denied" } }, 1],
])("a replay of %s", (_name, fields, expected) => {
  const { changes, not_judged, unchanged, records } = replayAll(fields);
  const found = changes.map(({ from, to, rule }) => `${from}>${to} ${rule}`);
  const reasons = not_judged.map(({ reason }) => reason);
  if (typeof expected === "number") assert.deepEqual([unchanged, found, reasons], [expected, [], []]);
  else if (typeof expected === "string") assert.deepEqual([found, reasons], [[expected], []]);
  else assert.match(reasons.join(), expected);
  assert.equal(records, unchanged + found.length + reasons.length, "each record is counted once");
});

Deno.test("a grant or a waiver changes nothing in audit mode", () => {
  const decision = { kind: "allowed", requireApproval: false, approvalWaived: true, byGrant: true } as const;
  assert.equal(outcomeOf({ ...decision, enforcement: "audit" }), "allowed");
  assert.equal(outcomeOf(decision), "denied");
});

Deno.test("a replay judges a command even if another record of it is masked", () => {
  const { not_judged, changes } = replayAll({ command_line: "id" }, { command_line: "[REDACTED:x]" }, {});
  assert.deepEqual([not_judged[0]?.count, changes.map(({ count }) => count)], [1, [2]]);
});
