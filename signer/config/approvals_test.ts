import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { approverKey, createPasskey } from "@gateway/shared/testing";
import { CONFIG, snapshotOf, startSigner } from "../testing/memory_signer.ts";
import { snapshotWarnings } from "./warnings.ts";

const ANN = approverKey(3);
const PASSKEY = createPasskey("Y3JlZA");
const APPROVALS = {
  installation_id: "test-installation",
  approvers: {
    ann: { ssh_keys: [ANN.line], passkeys: [PASSKEY.config] },
    bob: { ssh_keys: [approverKey(4).line] },
    dba: { ssh_keys: [approverKey(6).line], groups: ["db"] },
  },
  required_by_group: { web: 1 },
  passkey_rp_id: "approve.test",
};
const SHORT_RSA_KEY = generateKeyPairSync("rsa", { modulusLength: 1024 }).publicKey
  .export({ format: "der", type: "spki" }).toString("base64url");

Deno.test.each([
  {
    name: "a key of two people",
    approvals: { ...APPROVALS, approvers: { ann: { ssh_keys: [ANN.line] }, bob: { ssh_keys: [ANN.line] } } },
  },
  {
    name: "a name of two people",
    approvals: { ...APPROVALS, approvers: { ann: { ssh_keys: [ANN.line] }, bob: { identities: ["ANN"] } } },
  },
  {
    name: "a passkey of two people with two IDs",
    approvals: {
      ...APPROVALS,
      approvers: {
        ann: { passkeys: [PASSKEY.config] },
        bob: { passkeys: [{ ...PASSKEY.config, id: "b3RoZXI" }] },
      },
    },
  },
  {
    name: "a passkey of 1024 bits",
    approvals: {
      ...APPROVALS,
      approvers: { ann: { passkeys: [{ id: "b3RoZXI", public_key: SHORT_RSA_KEY }] } },
    },
  },
  { name: "more signatures than approvers", approvals: { ...APPROVALS, required: 4 } },
  {
    name: "a group whose hosts too few people may approve",
    approvals: { ...APPROVALS, required_by_group: { web: 3 } },
  },
  {
    name: "a host that too few people may approve",
    approvals: { ...APPROVALS, required_by_group: {} },
    hosts: { web01: { ...CONFIG.hosts.web01, approvals_required: 3 } },
  },
  {
    name: "an unreadable key",
    approvals: { ...APPROVALS, approvers: { ann: { ssh_keys: ["ssh-ed25519 AAAA"] } } },
  },
  {
    name: "a host that nobody can approve",
    approvals: undefined,
    hosts: { web01: { ...CONFIG.hosts.web01, approvals_required: 1 } },
  },
])("a config with $name is rejected", async ({ approvals, hosts }) => {
  const changes = { ...(approvals && { approvals }), ...(hosts && { hosts }) };
  await assert.rejects(startSigner(changes), { code: "invalid_config" });
});

Deno.test("approvals without state_db cause a warning, because a restart loses the used documents", () => {
  const found = (state_db: string) =>
    snapshotWarnings(snapshotOf({ ...CONFIG, approvals: APPROVALS, state_db }))
      .filter((text) => text.includes("used again"));
  assert.deepEqual([found("").length, found("/state.db").length], [1, 0]);
});

Deno.test("more signatures than the approvers of a host's groups can give cause a warning, if a rule needs them", () => {
  const config = { ...CONFIG, approvals: { ...APPROVALS, required: 3, required_by_group: {} } };
  assert.deepEqual(snapshotWarnings(snapshotOf(config)).filter((text) => text.includes("nobody can")), [
    "web01: nobody can approve its requests, because 3 must sign and 2 may approve",
  ]);
});

Deno.test("a number of signatures that never applies causes a warning", () => {
  const { web01, open01 } = CONFIG.hosts;
  const warningsOf = (open: object, required_by_group: object) =>
    snapshotWarnings(
      snapshotOf({
        ...CONFIG,
        hosts: { web01: { ...web01, approvals_required: 1 }, open01: { ...open01, ...open } },
        approvals: { ...APPROVALS, required_by_group },
      }),
    ).filter((text) => text.endsWith("so nobody has to sign")).map((text) => text.split(":", 1)[0]);
  assert.deepEqual(warningsOf({}, { web: 1 }), []);
  assert.deepEqual(warningsOf({ approvals_required: 1 }, { wbe: 1 }), [
    "approvals.required_by_group.wbe",
    "hosts.open01.approvals_required",
  ]);
});
