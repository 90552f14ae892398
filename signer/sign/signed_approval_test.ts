import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { sha256Hex } from "@gateway/shared/proofs";
import {
  approverKey,
  type AssertionChanges,
  createPasskey,
  decisionText,
  passkeyProof,
  sshProof,
} from "@gateway/shared/testing";
import type { ApprovalProof, ApprovalSubject, SignedApproval } from "@gateway/shared/wire";
import { MINTED, startClusterSigner } from "../testing/cluster_scene.ts";
import { failingStore, memoryStore } from "../testing/failing_store.ts";
import { CONFIG, DISTINCT, HOST_KEY, NOW_MS, ONE_SHOT, post, startSigner } from "../testing/memory_signer.ts";

const ANN = approverKey(3);
const BOB = approverKey(4);
const ANNS_SECOND = approverKey(5);
const PASSKEY = createPasskey("Y3JlZA");
const APPROVALS = {
  installation_id: "test-installation",
  approvers: {
    ann: {
      ssh_keys: [ANN.line, ANNS_SECOND.line],
      passkeys: [PASSKEY.config],
      identities: ["Ann@corp.test"],
    },
    bob: { ssh_keys: [BOB.line] },
    dba: { ssh_keys: [approverKey(6).line], groups: ["db"] },
  },
  required_by_group: { web: 1 },
  passkey_rp_id: "approve.test",
};
const RESTART = { command: "systemctl restart nginx", end_user: "eve", ttl_seconds: 60 };
const DELETE = "delete deployments.apps web/api";
const FORWARDED = { ...RESTART, on_behalf_of: "broker-1" };

/** A signer, and the subject that it reports for {@linkcode RESTART}. */
async function startWithApprovals(approvals: object = {}) {
  const signer = await startSigner({ approvals: { ...APPROVALS, ...approvals } }, { randomBytes: DISTINCT });
  const { subject } = await parkedBy(signer);
  const approve = (proofs: readonly ApprovalProof[], changes: object = {}, cn = "control-plane") =>
    signer.sign({ ...FORWARDED, approved: true, approval_proofs: proofs, ...changes }, cn);
  return { signer, subject, approve };
}

async function parkedBy(signer: Awaited<ReturnType<typeof startSigner>>): Promise<SignedApproval> {
  const { body } = await signer.sign(FORWARDED, "control-plane");
  return body["signed_approval"] as SignedApproval;
}

Deno.test("a request that needs signatures reports its subject to the control plane alone", async () => {
  const { signer, subject } = await startWithApprovals();
  assert.deepEqual([subject.caller, subject.command, subject.public_key], [
    "broker-1",
    RESTART.command,
    HOST_KEY,
  ]);
  const direct = await signer.sign(RESTART);
  assert.deepEqual([direct.status, direct.body["signed_approval"]], [200, undefined]);
});

Deno.test.each([
  { kind: "an SSH key", prove: (document: string) => sshProof(document, ANN) },
  { kind: "a passkey", prove: (document: string) => passkeyProof(document, PASSKEY) },
])("one decision signed with $kind approves one certificate, and the record proves it", async ({ prove }) => {
  const { signer, subject, approve } = await startWithApprovals();
  const proof = prove(decisionText(subject, {}));
  const { status, body } = await approve([proof]);
  assert.deepEqual([status, body.certificate !== undefined], [200, true], String(body.detail));
  const record = signer.log.entries.find(({ outcome }) => outcome === "issued");
  assert.deepEqual([record?.approved_by, record?.approvals?.[0]?.proof], ["ann", { ...proof }]);
  const again = await approve([proof]);
  assert.deepEqual([again.status, again.body.detail], [
    403,
    "signed approval: a decision has been used before",
  ]);
});

/** A proof of bob or ann for the subject; the request that it is sent with; the start of the reason. */
type Attack = {
  readonly name: string;
  readonly proofs: (subject: ApprovalSubject) => readonly ApprovalProof[];
  readonly request?: object;
  readonly cn?: string;
  readonly reason: string;
};

const signedBy = (key: typeof ANN, changes = {}) => (subject: ApprovalSubject) => [
  sshProof(decisionText(subject, changes), key),
];
const ofOther = (changes: Partial<ApprovalSubject>) => (subject: ApprovalSubject) => [
  sshProof(decisionText({ ...subject, ...changes }, {}), ANN),
];
const byPasskey = (changes: AssertionChanges) => (subject: ApprovalSubject) => [
  passkeyProof(decisionText(subject, {}), PASSKEY, changes),
];
const OTHER_REQUEST = "the decision is for another request";

Deno.test.each<Attack>([
  { name: "the control plane's word without a proof", proofs: () => [], reason: "0 of 1 people have signed" },
  { name: "another host", proofs: ofOther({ host: "open01" }), reason: OTHER_REQUEST },
  { name: "another command", proofs: ofOther({ command: "systemctl restart sshd" }), reason: OTHER_REQUEST },
  { name: "another ephemeral key", proofs: ofOther({ public_key: ANN.line }), reason: OTHER_REQUEST },
  { name: "sudo", proofs: signedBy(ANN), request: { sudo: true }, reason: OTHER_REQUEST },
  { name: "a longer lifetime", proofs: signedBy(ANN), request: { ttl_seconds: 120 }, reason: OTHER_REQUEST },
  {
    name: "another end user",
    proofs: signedBy(ANN),
    request: { end_user: "mallory" },
    reason: OTHER_REQUEST,
  },
  {
    name: "another caller",
    proofs: signedBy(ANN),
    request: { on_behalf_of: "approver-broker" },
    reason: OTHER_REQUEST,
  },
  {
    name: "another installation",
    proofs: signedBy(ANN, { installation: "other-installation" }),
    reason: "the decision is for another installation",
  },
  {
    name: "an expired document",
    proofs: signedBy(ANN, { expires_at: 1_699_999_999 }),
    reason: "the decision has",
  },
  {
    name: "a document for years",
    proofs: signedBy(ANN, { expires_at: 1_900_000_000 }),
    reason: "the decision is valid",
  },
  { name: "more uses than one", proofs: signedBy(ANN, { uses: 2 }), reason: "the decision document is not" },
  { name: "an unknown version", proofs: signedBy(ANN, { v: 2 }), reason: "the decision document is not" },
  { name: "a denial", proofs: signedBy(ANN, { decision: "deny" }), reason: "the decision document is not" },
  {
    name: "an unknown approver",
    proofs: signedBy(ANN, { approver: "carl" }),
    reason: '"carl" is not an approver',
  },
  { name: "another approver's key", proofs: signedBy(BOB), reason: 'the signature of "ann" is not valid' },
  {
    name: "a signature for another namespace",
    proofs: (subject) => [sshProof(decisionText(subject, {}), ANN, "file")],
    reason: 'the signature of "ann" is not valid: not an SSH signature',
  },
  {
    name: "a document changed after its signature",
    proofs: (subject) => {
      const [proof] = signedBy(ANN)(subject);
      return [{ ...proof!, document: decisionText(subject, { learn_ttl_seconds: 900 }) }];
    },
    reason: 'the signature of "ann" is not valid',
  },
  {
    name: "an approver of other groups",
    proofs: signedBy(approverKey(6), { approver: "dba" }),
    reason: '"dba" may not approve',
  },
  {
    name: "the requester under another name",
    proofs: (subject) => signedBy(ANN)({ ...subject, end_user: "ANN@corp.test." }),
    request: { end_user: "ANN@corp.test." },
    reason: '"ann" is the requester',
  },
  {
    name: "a waiver that nobody signed",
    proofs: signedBy(ANN, { learn_ttl_seconds: 60 }),
    request: { learn_ttl_seconds: 61, learn_approver: "ann", learn_approval_id: "1" },
    reason: "the approvers have not signed this lifetime",
  },
  {
    name: "a caller with self_approve",
    proofs: () => [],
    request: { on_behalf_of: "" },
    cn: "approver-broker",
    reason: "0 of 1 people have signed",
  },
  {
    name: "a passkey of another domain",
    proofs: byPasskey({ rpId: "evil.test" }),
    reason: 'the signature of "ann"',
  },
  { name: "a passkey without its user", proofs: byPasskey({ flags: 1 }), reason: 'the signature of "ann"' },
  { name: "a passkey without a touch", proofs: byPasskey({ flags: 4 }), reason: 'the signature of "ann"' },
  {
    name: "an assertion of another origin",
    proofs: byPasskey({ client: { origin: "https://evil.test" } }),
    reason: 'the signature of "ann" is not valid: it was made on another site',
  },
  {
    name: "an assertion in a frame",
    proofs: byPasskey({ client: { crossOrigin: true } }),
    reason: 'the signature of "ann" is not valid: it was made in another site',
  },
  {
    name: "a registration in place of an assertion",
    proofs: byPasskey({ client: { type: "webauthn.create" } }),
    reason: 'the signature of "ann" is not valid: it is not an assertion',
  },
  {
    name: "another challenge",
    proofs: byPasskey({ client: { challenge: "AAAA" } }),
    reason: 'the signature of "ann" is not valid: the challenge',
  },
])("the signer rejects $name", async ({ proofs, request = {}, cn, reason }) => {
  const { signer, subject, approve } = await startWithApprovals();
  const { status, body } = await approve(proofs(subject), request, cn);
  assert.deepEqual([status, body.code, body.certificate], [403, "denied", undefined]);
  assert.ok(body.detail?.startsWith(`signed approval: ${reason}`), String(body.detail));
  assert.deepEqual(signer.log.entries.filter(({ outcome }) => outcome === "issued"), []);
});

Deno.test.each([
  { name: "one person with two keys", second: ANNS_SECOND, approver: "ann", status: 403 },
  { name: "two people", second: BOB, approver: "bob", status: 200 },
])("a quorum of two: $name", async ({ second, approver, status }) => {
  const { subject, approve } = await startWithApprovals({ required: 2 });
  const proofs = [
    sshProof(decisionText(subject, {}), ANN),
    sshProof(decisionText(subject, { approver, nonce: "1".repeat(32) }), second),
  ];
  assert.equal((await approve(proofs)).status, status);
});

Deno.test("a group that is named like a member of every object requires what the config says", async () => {
  const hosts = { ...CONFIG.hosts, web01: { ...CONFIG.hosts.web01, groups: ["web", "constructor"] } };
  const signer = await startSigner({ hosts, approvals: APPROVALS }, { randomBytes: DISTINCT });
  const { status } = await signer.sign({ ...FORWARDED, approved: true }, "control-plane");
  assert.equal(status, 403);
});

Deno.test.each(["ann", "ANN@corp.test"])(
  "the signer rejects the decision of an approver frozen as %s",
  async (name) => {
    const { signer, subject, approve } = await startWithApprovals();
    await signer.freeze("end_user", name);
    const { status, body } = await approve(signedBy(ANN)(subject));
    assert.deepEqual([status, body.detail], [403, 'signed approval: "ann" is frozen']);
  },
);

Deno.test("the counter of a passkey may not go back", async () => {
  const { subject, approve } = await startWithApprovals();
  const prove = (nonce: string, counter: number) =>
    passkeyProof(decisionText(subject, { nonce: nonce.repeat(32) }), PASSKEY, { counter });
  const [first, clone] = [prove("1", 7), prove("2", 7)];
  const [asked, answered] = [await approve([first], { dry_run: true }), await approve([first])];
  assert.deepEqual([asked.status, answered.status], [200, 200], "the same assertion is verified twice");
  const { status, body } = await approve([clone]);
  assert.equal(status, 403);
  assert.match(String(body.detail), /the counter of a passkey of "ann" went back/);
});

Deno.test("a dry run reports who has signed, and issues nothing", async () => {
  const { subject, approve } = await startWithApprovals({ required: 2 });
  const { body } = await approve([sshProof(decisionText(subject, {}), ANN)], { dry_run: true });
  const { approved_by, required, problem } = body["signed_approval"] as SignedApproval;
  assert.deepEqual([approved_by, required, problem, body.certificate], [["ann"], 2, undefined, undefined]);
});

Deno.test("without a new signature, a waiver ends when its approvers said", async () => {
  const { signer, subject, approve } = await startWithApprovals();
  const learned = { learn_ttl_seconds: 60, learn_approver: "ann", learn_approval_id: "1" };
  const proof = sshProof(decisionText(subject, { learn_ttl_seconds: 60 }), ANN);
  await approve([proof], learned);
  const { status } = await approve([], { ...learned, learn_ttl_seconds: 86_400 });
  const ends = signer.live.listGrants().map(({ expiresAt }) => expiresAt);
  assert.deepEqual([status, ends], [200, [NOW_MS + 60_000]]);
});

Deno.test("a certificate is withheld if its waiver is revoked meanwhile, whatever proofs it came with", async () => {
  const { signer, subject, approve } = await startWithApprovals();
  const prove = (nonce: string) =>
    sshProof(decisionText(subject, { nonce: nonce.repeat(32), learn_ttl_seconds: 60 }), ANN);
  const learned = { learn_ttl_seconds: 60, learn_approver: "ann", learn_approval_id: "1" };
  await approve([prove("1")], learned);
  const [waiver] = signer.live.listGrants();
  const records = { made: () => Promise.resolve(), notStored: () => Promise.resolve() };
  signer.log.onAppended = async ({ outcome }) => {
    if (outcome === "issued") await signer.live.revokeGrant(waiver?.id ?? "", records);
  };
  const { status, body } = await approve([prove("2")]);
  assert.deepEqual([status, body.detail], [403, "its approval must now be signed"]);
});

Deno.test("a used document stays used after a restart", async () => {
  const store = memoryStore();
  const start = () => startSigner({ approvals: APPROVALS }, { randomBytes: DISTINCT, store });
  const first = await start();
  const { subject } = await parkedBy(first);
  const approved = { ...FORWARDED, approved: true, approval_proofs: signedBy(ANN)(subject) };
  assert.equal((await first.sign(approved, "control-plane")).status, 200);
  const { status, body } = await (await start()).sign(approved, "control-plane");
  assert.deepEqual([status, body.detail], [403, "signed approval: a decision has been used before"]);
});

type Scene = Awaited<ReturnType<typeof startSigner>> & { readonly store: ReturnType<typeof failingStore> };

Deno.test.each<{ name: string; code: string; set: (scene: Scene, fails: boolean) => void; gone?: boolean }>([
  {
    name: "too many certificates are valid",
    code: "rate_limited",
    set: ({ krl }, fails) => krl.issued.hasRoomFor = () => !fails,
  },
  {
    name: "the store fails",
    code: "internal",
    set: ({ store }, fails) => fails ? store.failing.add("useDocuments") : store.failing.clear(),
  },
  {
    name: "the audit log is known to be broken",
    code: "audit_unavailable",
    set({ log, gate }, fails) {
      log.failing = fails;
      gate.check();
    },
  },
  { name: "the client has gone", code: "canceled", set() {}, gone: true },
])("if $name, a signed decision can still be used, once", async ({ code, set, gone = false }) => {
  const store = failingStore();
  const signer = await startSigner({ approvals: APPROVALS }, { randomBytes: DISTINCT, store });
  const { subject } = await parkedBy(signer);
  const body = { ...ONE_SHOT, ...FORWARDED, approved: true, approval_proofs: signedBy(ANN)(subject) };
  const collect = (signal?: AbortSignal) =>
    signer.send(new Request(post("/v1/sign", body), { signal: signal ?? null }), "control-plane");
  set({ ...signer, store }, true);
  const failed = await collect(gone ? AbortSignal.abort(new AppError("canceled", "gone")) : undefined);
  set({ ...signer, store }, false);
  await signer.krl.sweep();
  assert.deepEqual(await store.loadRevocations(0), []);
  const polls = await Promise.all([collect(), collect()]);
  assert.deepEqual([failed.body.code, ...polls.map(({ status }) => status).sort()], [code, 200, 403]);
  assert.equal(signer.log.entries.filter(({ outcome }) => outcome === "issued").length, 1);
});

Deno.test("a decision is used by the token that an API server has issued, not by its failure", async () => {
  const replies = [{ kind: "timed_out" }] as const;
  let polls = 0;
  const signer = await startClusterSigner({
    config: { approvals: APPROVALS },
    reply: () => replies[polls++] ?? MINTED,
  });
  const forwarded = { on_behalf_of: "broker-1", end_user: "eve" };
  const { body } = await signer.act(DELETE, forwarded, "control-plane");
  const { subject } = body["signed_approval"] as SignedApproval;
  const approved = { ...forwarded, approved: true, approval_proofs: signedBy(ANN)(subject) };
  const statuses: number[] = [];
  for (let poll = 0; poll < 3; poll++) {
    statuses.push((await signer.act(DELETE, approved, "control-plane")).status);
  }
  assert.deepEqual([statuses, polls], [[502, 200, 403], 2], "the used document reaches no API server");
});

Deno.test("a learned waiver names the people who signed it", async () => {
  const { signer, subject, approve } = await startWithApprovals();
  const learned = {
    learn_ttl_seconds: 60,
    learn_approver: "the control plane's claim",
    learn_approval_id: "1",
  };
  const proof = sshProof(decisionText(subject, { learn_ttl_seconds: 60 }), ANN);
  assert.equal((await approve([proof], { ...learned, learn_approver: "claimed" })).status, 200);
  assert.deepEqual(signer.live.listGrants().map(({ approver }) => approver), ["ann"]);
});

Deno.test("a document that another signer has used is used here too", async () => {
  const { signer, subject, approve } = await startWithApprovals();
  const [proof] = signedBy(ANN)(subject);
  assert.ok(proof);
  const used = { kind: "document", value: sha256Hex(proof.document), revokedAt: 1_700_000_600_000 } as const;
  const state = { revocations: [used], krlVersion: signer.krl.current.version };
  await signer.krl.takeOver({ certificates: [], state });
  const { status, body } = await approve([proof]);
  assert.deepEqual([status, body.detail], [403, "signed approval: a decision has been used before"]);
});

Deno.test.each([
  { name: "an approver is removed", approvals: { approvers: { bob: APPROVALS.approvers.bob } } },
  { name: "the quorum is raised", approvals: { required: 2 } },
])("a signature does not count if $name before the broker collects", async ({ approvals }) => {
  const { signer, subject, approve } = await startWithApprovals();
  await signer.reload({ approvals: { ...APPROVALS, ...approvals } });
  assert.equal((await approve(signedBy(ANN)(subject))).status, 403);
});
