import assert from "node:assert/strict";
import { approverKey, createPasskey } from "@gateway/shared/testing";
import { LogFolder } from "./audit_fixture.ts";
import { SIGNER_KEYS, withConfig } from "./ctl_fixture.ts";

const [ANN, BOB] = [approverKey(3).line, approverKey(4).line];
const PASSKEY = JSON.stringify(createPasskey("Y3JlZA").config);
const CONFIG = JSON.stringify({
  ...SIGNER_KEYS,
  approvals: { installation_id: "lab-12345", approvers: { ann: { ssh_keys: [ANN] } }, required: 1 },
});

Deno.test("broker-ctl approver require names the command that adds an approver, if there is none", async () => {
  await using config = await withConfig(JSON.stringify(SIGNER_KEYS));
  const { err, exit } = await config.ctl("approver", "require", "1");
  assert.match(
    err,
    /Cannot require signatures: the signer's config has no approvers\nfix: broker-ctl approver add/,
  );
  assert.equal(exit, 1);
});

Deno.test.each<{ name: string; approvals?: object; exit: number; says: RegExp }>([
  {
    name: "a log without signed approvals",
    approvals: { approvers: { ann: { ssh_keys: [ANN] } } },
    exit: 0,
    says: /^not proved: .*: the logs contain 0 signed approvals$/m,
  },
  {
    name: "absent approvals",
    exit: 1,
    says: /Cannot verify approvals: the signer's config has no approvals\nfix: pass --config FILE/,
  },
  {
    name: "invalid approvals",
    approvals: { approvers: { ann: { ssh_keys: ["ssh-ed25519 AAAA"] } } },
    exit: 1,
    says:
      /Cannot verify approvals: approvals\.approvers\.ann: .*\nfix: correct approvals in the signer's config/,
  },
])("audit verify --approvals reports $name", async ({ approvals, exit, says }) => {
  await using log = new LogFolder();
  await log.write("one");
  const block = approvals && { approvals: { installation_id: "lab-12345", ...approvals } };
  await using config = await withConfig(JSON.stringify({ ...SIGNER_KEYS, ...block }));
  const result = await config.ctl("audit", "verify", "--log", log.path, "--approvals");
  assert.match(result.out + result.err, says);
  assert.equal(result.exit, exit);
});

Deno.test.each<{ args: readonly string[]; exit: number; says: RegExp }>([
  {
    args: ["approver", "list"],
    exit: 0,
    says: /^NAME +KEYS +GROUPS\nann +ssh SHA256:\S{43} +all\nrequired: 1\n$/,
  },
  {
    args: ["approver", "add", "bob", "--ssh-key", BOB],
    exit: 0,
    says: /^approver "bob" added[^]*\n {2}ssh SHA256:/,
  },
  {
    args: ["approver", "add", "ann", "--ssh-key", BOB],
    exit: 1,
    says: /Cannot add approver "ann": it exists\nfix: pass --force/,
  },
  { args: ["approver", "add", "bob"], exit: 2, says: /A new approver needs --ssh-key or --passkey/ },
  { args: ["approver", "add", "bob", "--ssh-key", "ssh-ed25519 AAAA"], exit: 2, says: /Cannot read SSH/ },
  {
    args: ["approver", "add", "bob", "--ssh-key", ANN],
    exit: 1,
    says: /approvers\.bob: a key also belongs to "ann"/,
  },
  {
    args: ["approver", "add", "bob", "--passkey", PASSKEY],
    exit: 1,
    says: /approvers\.bob\.passkeys: needs approvals\.passkey_rp_id/,
  },
  {
    args: ["approver", "add", "bob", "--passkey", "nope"],
    exit: 2,
    says: /not the text of the registration page/,
  },
  {
    args: ["approver", "add", "bob", "--ssh-key", BOB, "--identity", "ANN"],
    exit: 1,
    says: /approvers\.bob: the name "ann" also belongs to "ann"/,
  },
  {
    args: ["approver", "require", "2"],
    exit: 1,
    says: /approvals\.required: needs 2 approvers, and approvals\.approvers has 1/,
  },
  { args: ["approver", "require", "9"], exit: 2, says: /Expected a number from 0 to 8/ },
  {
    args: ["approver", "require", "0"],
    exit: 0,
    says: /^every approval without a larger number: 0 must sign\nrequired: 0\n/,
  },
  {
    args: ["approver", "require", "0", "--group", "wbe"],
    exit: 0,
    says:
      /^approvals of group "wbe": 1 must sign\nrequired: 1, group wbe: 0\nwarning: no host or cluster is in group "wbe"\n/,
  },
  {
    args: ["approver", "remove", "ann"],
    exit: 1,
    says: /needs 1 approver, and approvals\.approvers has 0/,
  },
  { args: ["approver", "remove", "carl"], exit: 1, says: /Cannot find approver "carl"/ },
])("broker-ctl $args exits with $exit, and an error changes nothing", async ({ args, exit, says }) => {
  await using config = await withConfig(CONFIG);
  const result = await config.ctl(...args);
  assert.match(result.out + result.err, says);
  assert.equal(result.exit, exit);
  if (exit !== 0) assert.equal(await config.read(), CONFIG);
});
