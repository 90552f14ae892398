import assert from "node:assert/strict";
import { AuditGate } from "@gateway/shared/audit";
import type { CaKey, CaKeyRing } from "@gateway/shared/ca";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { encodeOpensshPrivateKey, parseCertificate, verifyCertificateSignature } from "@gateway/shared/ssh";
import { FakeClock, FixedRandom, MemoryAuditLog, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { brokerConfig, type BrokerHost, type LocalPolicyConfig } from "../config/config.ts";
import type { CertificateRequest } from "./authority.ts";
import { checkCertificate } from "./remote.ts";
import { compileLocalPolicy, LocalAuthority } from "./local.ts";
import { describeIgnoredKeys, ownName } from "./load.ts";

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

Deno.test("LocalAuthority.hosts() lists the configured hosts without their policy", async () => {
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

Deno.test("LocalAuthority.rules() returns only the rules of known hosts", async () => {
  const rules = await createAuthority().authority.rules(["web01", "other"]);
  assert.deepEqual(Object.keys(rules), ["web01"]);
  assert.equal(rules["web01"]?.policy?.max_ttl_seconds, 300);
});

Deno.test("LocalAuthority.sign() records and issues a certificate that is locked to the command", async () => {
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
    decision: '{"outcome":"allowed","groups":null}',
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

Deno.test("LocalAuthority.sign() returns no certificate if the audit log fails", async () => {
  const { sign, log } = createAuthority();
  log.failing = true;
  await assert.rejects(sign(), { code: "audit_unavailable" });
});

Deno.test("LocalAuthority.sign() signs with the CA key of the host's group", async () => {
  const [own, other] = [caKey(2), caKey(1)];
  const { sign } = createAuthority({ fallback: other, byGroup: new Map([["web", own]]) });
  const answer = await sign();
  assert.ok(answer.kind === "issued");
  assert.deepEqual(parseCertificate(answer.certificate).caPublicKey, own.publicKey);
});

Deno.test("LocalAuthority.sign() returns only the decision on a dry run", async () => {
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

Deno.test.each<[name: string, changes: Partial<CertificateRequest>, status: number, detail: RegExp]>([
  ["a command that no rule allows", { command: "id" }, 403, /command/],
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

Deno.test("LocalAuthority.sign() reports a CA key that cannot sign", async () => {
  const broken: CaKey = {
    ...caKey(1),
    sign: () => Promise.reject(new Error("agent at /run/ca.sock is gone")),
  };
  const { sign, log } = createAuthority({ fallback: broken, byGroup: new Map() });
  await assert.rejects(sign(), { code: "upstream_failure", message: "the CA key could not sign" });
  assert.deepEqual(log.entries, []);
});

Deno.test("LocalAuthority.sign() issues no certificate if the request is already canceled", async () => {
  const { authority, log } = createAuthority();
  await assert.rejects(authority.sign(REQUEST, { signal: AbortSignal.abort() }), { code: "canceled" });
  assert.deepEqual(log.entries, []);
});

const HOST: BrokerHost = { addr: "10.0.0.1:22", user: "deploy", host_key: SAMPLE_HOST_KEY };

function compile(hosts: Record<string, BrokerHost>, keys: Partial<LocalPolicyConfig> = {}) {
  return compileLocalPolicy({
    hosts,
    command_policies: {},
    group_command_policies: {},
    max_ttl_seconds: 300,
    source_address: "",
    ...keys,
  });
}

Deno.test.each([
  { name: "the global value if the host has none", own: undefined, expected: "10.9.0.0/16" },
  { name: "the global one where the host's is empty", own: "", expected: "10.9.0.0/16" },
  { name: "the host's own", own: "10.1.1.1", expected: "10.1.1.1" },
])("compileLocalPolicy() uses as source address $name", ({ own, expected }) => {
  const host = own === undefined ? HOST : { ...HOST, source_address: own };
  const { hosts } = compile({ web01: host }, { source_address: "10.9.0.0/16" });
  assert.equal(hosts.get("web01")?.source_address, expected);
});

Deno.test("compileLocalPolicy() permits a bastion by allow_as_bastion or by the jump of another host", () => {
  const { hosts } = compile({
    web01: { ...HOST, jump: "hop" },
    hop: HOST,
    open: { ...HOST, allow_as_bastion: true },
    refusing: { ...HOST, allow_as_bastion: false },
    behind: { ...HOST, jump: "refusing" },
  });
  assert.deepEqual(
    [...hosts.values()].map(({ name, allow_as_bastion }) => [name, allow_as_bastion ?? false]),
    [["web01", false], ["hop", true], ["open", true], ["refusing", true], ["behind", false]],
  );
});

Deno.test("compileLocalPolicy() limits each certificate to max_ttl_seconds", () => {
  assert.equal(compile({ web01: HOST }, { max_ttl_seconds: 60 }).hosts.get("web01")?.maxTtlSeconds, 60);
});

Deno.test("compileLocalPolicy() accepts hosts named __proto__ and constructor", () => {
  const hosts = Object.fromEntries([["__proto__", HOST], ["constructor", HOST]]);
  assert.deepEqual([...compile(hosts).hosts.keys()], ["__proto__", "constructor"]);
});

Deno.test.each<{ name: string; hosts: Record<string, BrokerHost>; problem: RegExp; keys?: object }>([
  {
    name: "a host without an account",
    hosts: { web01: { ...HOST, user: "" } },
    problem: /hosts\.web01\.user: /,
  },
  {
    name: "a bastion with command rules, even if only a jump makes it a bastion",
    hosts: { web01: { ...HOST, jump: "hop" }, hop: { ...HOST, command_policy: { mode: "allowlist" } } },
    problem: /hosts\.hop\.allow_as_bastion: a host with command rules cannot be a bastion/,
  },
  {
    name: "an invalid source address",
    hosts: { web01: HOST },
    keys: { source_address: "here" },
    problem: /hosts\.web01\.source_address: /,
  },
])("compileLocalPolicy() rejects $name", ({ hosts, problem, keys = {} }) => {
  assert.throws(() => compile(hosts, keys), (error) => {
    assert.ok(error instanceof Error);
    assert.match(error.message, /^Cannot use broker config: /);
    assert.match(error.message, problem);
    return true;
  });
});

Deno.test("ownName() returns the certificate's CN including commas", () => {
  assert.equal(ownName(pem("ONE")), "broker, one");
});

Deno.test.each([{ name: "without a CN", which: "NONE" }, { name: "with two CNs", which: "TWO" }])(
  "ownName() rejects a certificate $name",
  ({ which }) => {
    assert.throws(() => ownName(pem(which)), { code: "invalid_config" });
  },
);

function pem(which: string): string {
  return CERTIFICATES[which] ?? "";
}

/** Created with: `openssl req -x509 -newkey ed25519 -keyout key -nodes -days 36500 -subj <subject>` */
const CERTIFICATES: Readonly<Record<string, string>> = {
  // /O=acme/CN=broker\, one
  ONE: `-----BEGIN CERTIFICATE-----
MIIBYTCCAROgAwIBAgIUV3c1OrDr4t8wNSWrDhXP5ttNR+gwBQYDK2VwMCUxDTAL
BgNVBAoMBGFjbWUxFDASBgNVBAMMC2Jyb2tlciwgb25lMCAXDTI2MTEyMTA3NDAw
M1oYDzIxMjYxMDI4MDc0MDAzWjAlMQ0wCwYDVQQKDARhY21lMRQwEgYDVQQDDAti
cm9rZXIsIG9uZTAqMAUGAytlcAMhABWmZB9KrZWZsbuSI1gu+T5wtimVvVaF8KHa
70VP7a58o1MwUTAdBgNVHQ4EFgQUy1B07GA0wq4qIuk5GbVRCAXQW84wHwYDVR0j
BBgwFoAUy1B07GA0wq4qIuk5GbVRCAXQW84wDwYDVR0TAQH/BAUwAwEB/zAFBgMr
ZXADQQD70Kxa+m3hdOISVMsRQdDBimHYcmeh2v8JBjxW/MMVwil7xEFBQGmz4Bpl
edDXQVyJoDGxe7bC3ekGeFMiDUEP
-----END CERTIFICATE-----`,
  // /O=acme
  NONE: `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhRc7Q7xdDwO1hHU76iobWZTtd3MLTAFBgMrZXAwDzENMAsG
A1UECgwEYWNtZTAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3NDAwM1owDzEN
MAsGA1UECgwEYWNtZTAqMAUGAytlcAMhAIA+piEVC/YcgqjZAh0WRaSmjSxPiL41
gbGelRf5C03Go1MwUTAdBgNVHQ4EFgQUKeQxfoDBK0qfVZvc7odpyI5vKEswHwYD
VR0jBBgwFoAUKeQxfoDBK0qfVZvc7odpyI5vKEswDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQD6KqhNeWD2GLsBBqBtjM3Sh8IKn3Er1Krw04AGyPN1yldR4ogXzpuV
JfcLsuZZhT84ZCtr7Tt2dNI/jyn/t0UM
-----END CERTIFICATE-----`,
  // /CN=a/CN=b
  TWO: `-----BEGIN CERTIFICATE-----
MIIBRjCB+aADAgECAhRUZtMj5IUhcXRRad/WprtPE77LJDAFBgMrZXAwGDEKMAgG
A1UEAwwBYTEKMAgGA1UEAwwBYjAgFw0yNjExMjEwNzQwMDNaGA8yMTI2MTAyODA3
NDAwM1owGDEKMAgGA1UEAwwBYTEKMAgGA1UEAwwBYjAqMAUGAytlcAMhAAm6qNEp
haPhfxk9+iWaInozmuGO7Ls2fUKno1kPg356o1MwUTAdBgNVHQ4EFgQUpzlJ10JD
L7Q2h2LPsHWwBElX8i0wHwYDVR0jBBgwFoAUpzlJ10JDL7Q2h2LPsHWwBElX8i0w
DwYDVR0TAQH/BAUwAwEB/zAFBgMrZXADQQD/ZrRFx8Edk2uXA4l2urr9JBdkG5J+
YXrad66XYAaj9YkFlE+UJ4RbTqj2aAVCkYYa33TAjv+AzPNdKRpQzgcK
-----END CERTIFICATE-----`,
};

const BASE = { audit_log: "log/audit.log", audit_key: "seed" };
const SIGNER = { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" };
const HEAD = "warning: remote mode (signer block set): ignoring local-mode config — ";
const TAIL = ". Host inventory and policy come from the signer.";

Deno.test.each([
  { name: "no line for a valid config", keys: {}, line: undefined },
  {
    name: "hosts without policy fields",
    keys: { hosts: { web01: { addr: "h:22", user: "u", host_key: "k", jump: "b", groups: ["g"] } } },
    line: `${HEAD}hosts${TAIL}`,
  },
  {
    name: "no keys that are empty or false",
    keys: {
      ca_key: "",
      ca_keys: {},
      source_address: "",
      hosts: {},
    },
    line: undefined,
  },
  {
    name: "top-level keys in a fixed order",
    keys: {
      source_address: "10.0.0.1",
      group_command_policies: { _default: ["base"] },
      command_policies: { base: {} },
      ca_keys: { _default: { type: "pem", path: "p" } },
      ca_key: "ssh_ca",
    },
    line: `${HEAD}ca_key, ca_keys, command_policies, group_command_policies, source_address${TAIL}`,
  },
  {
    name: "hosts sorted by name and their fields in a fixed order",
    keys: {
      hosts: {
        web02: { addr: "h:22", allow_pty: true },
        web01: {
          addr: "h:22",
          stop_on_disconnect: true,
          allow_as_bastion: true,
          allow_file_transfer: true,
          allow_pty: true,
          allowed_sudo_users: ["db"],
          allow_sudo: true,
          command_policy: { mode: "off" },
          source_address: "10.0.0.1",
          principal: "p",
        },
        web03: { addr: "h:22" },
      },
    },
    line:
      `${HEAD}hosts; policy fields on 2 host(s) (web01: principal, source_address, command_policy, allow_sudo, ` +
      "allowed_sudo_users, allow_pty, allow_file_transfer, allow_as_bastion, stop_on_disconnect; " +
      `web02: allow_pty)${TAIL}`,
  },
  {
    name: "ca_key and policy fields of hosts in one line",
    keys: { ca_key: "ssh_ca", hosts: { web01: { addr: "h:22", allow_sudo: true } } },
    line: `${HEAD}ca_key, hosts; policy fields on 1 host(s) (web01: allow_sudo)${TAIL}`,
  },
])("describeIgnoredKeys() names $name", ({ keys, line }) => {
  assert.equal(describeIgnoredKeys(brokerConfig.parse({ ...BASE, signer: SIGNER, ...keys })), line);
});

Deno.test("describeIgnoredKeys() returns nothing in local mode", () => {
  const config = { ...BASE, ca_key: "ssh_ca", hosts: { web01: { addr: "h:22", allow_sudo: true } } };
  assert.equal(describeIgnoredKeys(brokerConfig.parse(config)), undefined);
});
