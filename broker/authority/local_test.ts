import assert from "node:assert/strict";
import { AuditGate } from "@gateway/shared/audit";
import type { CaKey, CaKeyRing } from "@gateway/shared/ca";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { encodeOpensshPrivateKey, parseCertificate, verifyCertificateSignature } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom, MemoryAuditLog, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import type { BrokerHost } from "../config/config.ts";
import type { CertificateRequest } from "./authority.ts";
import { checkCertificate } from "./remote.ts";
import { compileLocalPolicy, LocalAuthority } from "./local.ts";

const NOW_MS = 1_700_000_000_000;
const SERIAL = 0xfefefefefefefefen;
const { signal } = new AbortController();

const HOSTS: Record<string, BrokerHost> = {
  web01: {
    addr: "10.0.0.1:22",
    user: "deploy",
    host_key: SAMPLE_HOST_KEY,
    principal: "host:web01",
    groups: ["web"],
    jump: "hop",
    allow_sudo: true,
    allow_pty: true,
    command_policy: {
      mode: "allowlist",
      allow: ["^uptime$", "^reboot$"],
      require_approval: ["^reboot$"],
    },
  },
  hop: { addr: "10.0.0.2:22", user: "jump", host_key: SAMPLE_HOST_KEY, principal: "host:hop" },
};

const REQUEST: CertificateRequest = {
  host: "web01",
  role: "target",
  purpose: "oneshot",
  command: "uptime",
  public_key: SAMPLE_HOST_KEY,
  end_user: "agent-1",
  end_user_groups: null,
};

const caKey = (fill: number) => parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(fill), "ca"));

function createAuthority(caKeys: CaKeyRing<CaKey> = { fallback: caKey(1), byGroup: new Map() }) {
  const log = new MemoryAuditLog();
  const events = new AuditGate({ log, failMode: "closed", onAppendFailure() {}, onBlocked() {} });
  const authority = new LocalAuthority({
    policy: compileLocalPolicy({
      hosts: HOSTS,
      command_policies: {},
      group_command_policies: {},
      max_ttl_seconds: 300,
      source_address: "10.9.0.0/16",
    }),
    caKeys,
    ...{ cas: new Map(), api: { request: () => Promise.reject(new Error("not asked")), close() {} } },
    clock: new FakeClock(NOW_MS),
    random: new FixedRandom([0xfe]),
    events,
  });
  const sign = (changes: Partial<CertificateRequest> = {}) =>
    authority.sign({ ...REQUEST, ...changes }, { signal });
  return { authority, sign, log };
}

Deno.test("LocalAuthority.hosts() lists the hosts of the config, without their policy", async () => {
  assert.deepEqual(await createAuthority().authority.hosts(), {
    hop: { addr: "10.0.0.2:22", user: "jump", host_key: SAMPLE_HOST_KEY },
    web01: {
      addr: "10.0.0.1:22",
      user: "deploy",
      host_key: SAMPLE_HOST_KEY,
      jump: "hop",
      allow_sudo: true,
      allow_pty: true,
      groups: ["web"],
    },
  });
});

Deno.test("LocalAuthority.rules() tells the rules of the hosts that it knows", async () => {
  const rules = await createAuthority().authority.rules(["web01", "other"]);
  assert.deepEqual(Object.keys(rules), ["web01"]);
  assert.equal(rules["web01"]?.policy?.max_ttl_seconds, 300);
});

Deno.test("LocalAuthority.sign() issues a certificate locked to the command, and records it first", async () => {
  const { sign, log } = createAuthority();
  const answer = await sign({ ttl_seconds: 60 });
  assert.ok(answer.kind === "issued");
  checkCertificate(answer.certificate, {
    ...{ publicKey: SAMPLE_HOST_KEY, serial: answer.serial, use: "command", host: "web01" },
  });
  const certificate = parseCertificate(answer.certificate);
  assert.ok(verifyCertificateSignature(certificate));
  assert.deepEqual(certificate.principals, ["host:web01"]);
  assert.deepEqual({ ...certificate.criticalOptions }, {
    "force-command": "uptime",
    "source-address": "10.9.0.0/16",
  });
  assert.deepEqual(certificate.extensions, []);
  assert.equal(certificate.validBefore, NOW_MS / 1000 + 60);
  assert.equal(certificate.serial, SERIAL);
  assert.equal(certificate.keyId, "agent=local host=web01 role=target t=1700000000 user=agent-1");
  assert.equal(answer.waited, false);
  assert.deepEqual(log.entries, [{
    caller: "local",
    host: "10.0.0.1:22",
    user: "deploy",
    principal: "host:web01",
    command: "role=target purpose=oneshot user=agent-1",
    command_line: "uptime",
    addr: "10.0.0.1:22",
    content_sha256: "",
    host_name: "web01",
    reason: "",
    session_id: "",
    ttl: "60s",
    serial: SERIAL,
    outcome: "issued",
    elevation: "",
    pty: false,
    policy_rule: "allow:^uptime$",
    warning: "",
  }]);
});

Deno.test("LocalAuthority.sign() releases no certificate that could not be recorded", async () => {
  const { sign, log } = createAuthority();
  log.failing = true;
  await assert.rejects(sign(), { code: "audit_unavailable" });
});

Deno.test("LocalAuthority.sign() signs with the key of the host's group", async () => {
  const [own, other] = [caKey(2), caKey(1)];
  const { sign } = createAuthority({ fallback: other, byGroup: new Map([["web", own]]) });
  const answer = await sign();
  assert.ok(answer.kind === "issued");
  assert.deepEqual(parseCertificate(answer.certificate).caPublicKey, own.publicKey);
});

Deno.test("LocalAuthority.sign() gives a hop a certificate without shell and terminal", async () => {
  const answer = await createAuthority().sign({ host: "hop", role: "bastion", command: "" });
  assert.ok(answer.kind === "issued");
  const certificate = parseCertificate(answer.certificate);
  assert.deepEqual(certificate.extensions, ["permit-port-forwarding"]);
  assert.match(certificate.keyId, /role=bastion/);
});

Deno.test("LocalAuthority.sign() answers a dry run with the decision alone", async () => {
  const { sign, log } = createAuthority();
  const allowed = await sign({ dry_run: true });
  assert.ok(allowed.kind === "decided" && allowed.decision.allowed);
  const gated = await sign({ dry_run: true, command: "reboot" });
  assert.ok(gated.kind === "decided" && gated.decision.require_approval === true);
  const denied = await sign({ dry_run: true, command: "id" });
  assert.ok(denied.kind === "decided");
  assert.deepEqual([denied.decision.allowed, denied.decision.matched_rule], [false, "allowlist:no-match"]);
  assert.deepEqual(log.entries, []);
});

Deno.test("LocalAuthority.sign() wants an approval where the policy does, and takes the broker's word for it", async () => {
  const { sign } = createAuthority();
  assert.deepEqual(await sign({ command: "reboot" }), {
    kind: "needs_approval",
    rule: "require_approval:^reboot$",
  });
  assert.equal((await sign({ command: "reboot", approved: true })).kind, "issued");
});

Deno.test.each<[name: string, changes: Partial<CertificateRequest>, status: number, detail: RegExp]>([
  ["a command that no rule allows", { command: "id" }, 403, /command/],
  ["an approved command that no rule allows", { command: "id", approved: true }, 403, /command/],
  ["an unknown host", { host: "gone" }, 403, /no policy for host: "gone"/],
  ["an unknown role", { role: "root" }, 403, /unknown role/],
  ["a user in no group", { end_user_groups: [] }, 403, /\(groups\)/],
  [
    "a shell on a host with command rules",
    { purpose: "session", session_mode: "shell", command: "" },
    403,
    /./,
  ],
  ["a host with rules as a hop", { role: "bastion" }, 403, /bastion/],
  [
    "an end user that would forge a field of the KeyId",
    { end_user: "x role=bastion" },
    400,
    /^invalid end_user: /,
  ],
  ["an invalid key", { public_key: "ssh-ed25519 AAAA" }, 400, /^invalid pubkey$/],
  ["a cluster", { target_type: "k8s" }, 400, /target_type "k8s" is not supported yet/],
])("LocalAuthority.sign() rejects %s", async (_name, changes, status, detail) => {
  const { sign, log } = createAuthority();
  const answer = await sign(changes);
  assert.ok(answer.kind === "rejected");
  assert.equal(answer.status, status);
  assert.match(answer.detail, detail);
  assert.deepEqual(log.entries, []);
});

Deno.test("LocalAuthority.sign() says that the CA key could not sign", async () => {
  const broken: CaKey = {
    ...caKey(1),
    sign: () => Promise.reject(new Error("agent at /run/ca.sock is gone")),
  };
  const { sign, log } = createAuthority({ fallback: broken, byGroup: new Map() });
  await assert.rejects(sign(), { code: "upstream_failure", message: "the CA key could not sign" });
  assert.deepEqual(log.entries, []);
});

Deno.test("LocalAuthority.sign() makes no certificate for who has gone", async () => {
  const { authority, log } = createAuthority();
  await assert.rejects(authority.sign(REQUEST, { signal: AbortSignal.abort() }), { code: "canceled" });
  assert.deepEqual(log.entries, []);
});
