import assert from "node:assert/strict";
import type { SignRequest } from "@gateway/shared/wire";
import { SERIAL } from "../testing/fake_signer.ts";
import { ONE_SHOT, PUBLIC_KEY, startControlPlane } from "../testing/memory_control_plane.ts";

/** A value of every field that is not its default. */
const EVERYTHING: SignRequest = {
  host: "web01",
  role: "bastion",
  purpose: "session",
  session_mode: "pty",
  command: "ls 'a b' \u00e4 \ud83d\ude00",
  ttl_seconds: 77,
  public_key: PUBLIC_KEY,
  sudo: true,
  sudo_user: "db",
  pty: true,
  file_transfer: true,
  dry_run: true,
  preflight: true,
  on_behalf_of: "broker-9",
  approved: true,
  end_user: "alice",
  end_user_groups: ["web", "db"],
  bearer_token: "token",
  learn_ttl_seconds: 60,
  learn_approver: "me",
  learn_approval_id: "abc",
  target_type: "ssh",
  k8s_verb: "get",
  k8s_resource: "pods",
  k8s_group: "apps",
  k8s_namespace: "prod",
  k8s_name: "web-1",
  k8s_manifest: "{}",
  k8s_force_fields: [".data.a"],
  session_max_seconds: 1800,
  session_id: "s-1",
  reason: "ticket 42",
  content_sha256: "aa".repeat(32),
  content_bytes: 3,
  content_head: "abc",
};

/** What only the control plane may say, whatever a broker sends. */
const OWN = {
  on_behalf_of: "broker-1",
  approved: false,
  learn_ttl_seconds: 0,
  learn_approver: "",
  learn_approval_id: "",
};

Deno.test("the signer is asked every field that the broker sent, but for what only the control plane may say", async () => {
  const plane = await startControlPlane();
  await plane.sign({ ...EVERYTHING, new_field: 1 });
  assert.deepEqual(plane.signer.signed, [{ ...EVERYTHING, ...OWN }], "and unknown fields are dropped");
});

Deno.test.each<{ name: string; sent: Partial<SignRequest>; groups: readonly string[] | null }>([
  { name: "absent stays no filter", sent: {}, groups: null },
  { name: "null stays no filter", sent: { end_user_groups: null }, groups: null },
  { name: "an empty list stays empty (I3)", sent: { end_user_groups: [] }, groups: [] },
  { name: "a list stays what it is", sent: { end_user_groups: ["a", ""] }, groups: ["a", ""] },
])("end_user_groups: $name", async ({ sent, groups }) => {
  const plane = await startControlPlane();
  await plane.sign(sent);
  assert.deepEqual(plane.signer.signed[0]?.end_user_groups, groups);
});

Deno.test("a minimal request is forwarded with defaults", async () => {
  const plane = await startControlPlane();
  await plane.sign();
  const [sent] = plane.signer.signed;
  assert.deepEqual({ ...sent, ...ONE_SHOT, ...OWN }, sent);
  assert.deepEqual([sent?.sudo, sent?.ttl_seconds, sent?.target_type, sent?.bearer_token], [
    false,
    0,
    "",
    "",
  ]);
});

Deno.test("of a public key type and key are forwarded, and the comment is not", async () => {
  const plane = await startControlPlane();
  await plane.sign({ public_key: `${PUBLIC_KEY} root@laptop of alice\r\n` });
  await plane.sign({ public_key: `${PUBLIC_KEY}\n` });
  assert.deepEqual(plane.signer.signed.map(({ public_key }) => public_key), [PUBLIC_KEY, PUBLIC_KEY]);
});

const DECISION = {
  allowed: true,
  reason: "r",
  require_approval: false,
  matched_rule: "allow:^x",
  force_command: "sudo -n -- x",
  ttl_seconds: 60,
  elevation: "sudo -n",
  enforcement: "audit",
  warning: "w",
  would_deny: true,
  would_require_approval: true,
};

Deno.test("the broker is given every field that the signer answered", async () => {
  const plane = await startControlPlane();
  const full = {
    certificate: "ssh-ed25519-cert-v01@openssh.com AAAA\n",
    serial: SERIAL,
    elevation_prefix: "sudo -n",
    decision: DECISION,
    envelope: { payload: "e30=", sig: [1, 2.5, SERIAL], nested: { a: null } },
  };
  plane.signer.reply = () => ({ body: full });
  assert.deepEqual((await plane.sign()).body, full);
});

Deno.test("a dry run is given decision and envelope, and nothing else", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({
    body: { decision: DECISION, envelope: "e30=", certificate: "c", serial: 1 },
  });
  for (const preflight of [true, false]) {
    const { body } = await plane.sign({ dry_run: true, preflight });
    assert.deepEqual(body, { decision: DECISION, envelope: "e30=" });
  }
});

Deno.test("an envelope is never given for what needs approval", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({
    body: { decision: { ...DECISION, require_approval: true }, envelope: "e30=" },
  });
  const { body } = await plane.sign({ dry_run: true, preflight: true });
  assert.deepEqual(Object.keys(body), ["decision"]);
});
