import { threadCpuUsage } from "node:process";
import { encodeRecord } from "@gateway/shared/audit";
import { readMessage } from "@gateway/shared/kubernetes";
import { compilePolicy, decideSsh } from "@gateway/shared/policy";
import { createRedactor } from "../shared/redact/redact.ts";
import {
  assertLinearWork,
  compileSample,
  sampleConfig,
  sampleHost,
  sampleIntent,
} from "@gateway/shared/testing";
import { isSubstantial } from "../debate/engine/graph/evidence.ts";
import assert from "node:assert/strict";
import { callerFromCertificate } from "@gateway/shared/http";
import { decideEndUser } from "@gateway/shared/oidc";
import { endUserOidcConfig } from "@gateway/shared/oidc/model";
import { formatKeyId } from "../shared/ssh/certificate.ts";
import { checkCaller, checkSignFields, freezeRequest, grantRequest, signRequest } from "@gateway/shared/wire";
import { checkPath } from "../broker/request/transfer.ts";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { BROKER_FRONTENDS, type BrokerFrontend, brokerPermissions } from "@gateway/broker/permissions";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { formatJson, mergeSets } from "@gateway/shared/permissions";
import { signerPermissions } from "@gateway/signer/permissions";
import { compileLocalPolicy } from "../broker/authority/local.ts";
import brokerManifest from "../broker/deno.json" with { type: "json" };
import { bridgePermissions, readSettings } from "../ctl/bridge/settings.ts";
import ctlManifest from "../ctl/deno.json" with { type: "json" };
import controlPlaneManifest from "../control_plane/deno.json" with { type: "json" };
import signerManifest from "../signer/deno.json" with { type: "json" };

const CHARACTERS = [
  ...Array.from({ length: 95 }, (_, index) => String.fromCharCode(0x20 + index)),
  ..."\0\t\n\xa0é漢\u2028𝒜",
];

/** CPU time that no linear path reaches at its maximum length. A quadratic path takes more than a second. */
const SUSPECT_MS = 100;

const RULES = {
  mode: "allowlist",
  allow: ["^x", "a.*b", String.raw`\b(?:rm|dd)\b`],
  deny: ["y$"],
  require_approval: ["(?i)restart"],
} as const;

const policy = compileSample(sampleConfig({
  ...{ command_policy: RULES, allow_sudo: true, allow_file_transfer: true, stop_on_disconnect: true },
}));
const open = compileSample(sampleConfig({ allow_sudo: true }));
const redact = createRedactor(undefined);
/** 64 KiB at most, including the start of a command. */
const MAX_BYTES = 64 * 1024 - 32;

/** Functions that parse texts of callers, hosts and API servers for a decision, with the longest text that each accepts. */
const PATHS: readonly { readonly name: string; readonly length: number; run(text: string): void }[] = [
  ...[
    "",
    "x ",
    "x 'a' ",
    "printf ",
    "printf %",
    "printf '\\",
    "printf %d ",
    "test ",
    "test x -eq ",
    "wait -",
    "exit ",
    "/",
  ]
    .map((start) => ({
      name: `a command that begins with ${JSON.stringify(start)}`,
      length: MAX_BYTES,
      run: (text: string) => void decideSsh(policy, sampleIntent({ command: start + text })),
    })),
  {
    name: "quoted words of a command",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `x '${text}'` })),
  },
  {
    name: "a quoted command name",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `"${text}" x` })),
  },
  {
    name: "a command name with a different end",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `${text}x` })),
  },
  {
    name: "an elevated command",
    length: MAX_BYTES,
    run: (text) => void decideSsh(open, sampleIntent({ command: `x${text}`, sudo: true })),
  },
  {
    name: "a file transfer",
    length: MAX_BYTES,
    run: (text) => void decideSsh(policy, sampleIntent({ command: `x ${text}`, fileTransfer: true })),
  },
  {
    name: "the audit record",
    length: MAX_BYTES,
    run: (text) => void encodeRecord({ outcome: "denied", command_line: text }, { time: "t", redact }),
  },
  {
    name: "the error message of an API server",
    length: MAX_BYTES,
    run: (text) => void readMessage(JSON.stringify({ kind: "Status", message: `[${text}` })),
  },
  {
    name: "a quote in a debate",
    length: MAX_BYTES,
    run: (text) => void isSubstantial(`a${text}a`, ""),
  },
];

Deno.test.each(PATHS)("time grows linearly with repeated characters: $name", ({ length, run }) => {
  for (const character of CHARACTERS) {
    const start = threadCpuUsage();
    run(character.repeat(length));
    const { user, system } = threadCpuUsage(start);
    if (user + system < SUSPECT_MS * 1000) continue;
    assertLinearWork((size) => run(character.repeat(size)), length);
  }
});

const OIDC = endUserOidcConfig.parse({ issuer: "https://idp.example", audience: "broker" });
const REQUEST = { host: "web01", role: "target", purpose: "oneshot", command: "uptime" };

const claimsOf = (claims: object) =>
  decideEndUser({ iss: OIDC.issuer, aud: OIDC.audience, exp: 2, sub: "alice", ...claims }, {
    ...OIDC,
    groups_claim: "groups" in claims ? "groups" : "",
    max_token_age_seconds: 0,
  }, 1000).kind === "verified";
const accepts = (check: () => unknown) => {
  try {
    check();
    return true;
  } catch {
    return false;
  }
};
const signs = (fields: object) =>
  accepts(() => checkSignFields(signRequest.parse({ ...REQUEST, ...fields })));
const keyIdOf = (parts: object) =>
  accepts(() => formatKeyId({ caller: "broker-1", host: "web01", role: "target", issuedAt: 1, ...parts }));
const loads = (name: string, host: object) =>
  compilePolicy({ ...sampleConfig(), hosts: { [name]: sampleHost(host) } }).kind !== "invalid";
const permits = (fields: object) =>
  decideSsh(compileSample(sampleConfig()), sampleIntent(fields)).kind === "allowed";

/** Every place that accepts a name or writes it into an audit record or a certificate. */
const DOORS: Readonly<Record<string, (name: string) => boolean>> = {
  "a token's user": (sub) => claimsOf({ sub }),
  "a token's group": (group) => claimsOf({ groups: [group] }),
  "a sign request's end user": (end_user) => signs({ end_user }),
  "a sign request's group": (group) => signs({ end_user_groups: [group] }),
  "a sign request's approver": (learn_approver) => signs({ learn_approver }),
  "a forwarded caller": (on_behalf_of) => signs({ on_behalf_of }),
  "a sign request's cluster namespace": (k8s_namespace) => signs({ k8s_namespace }),
  "a sign request's cluster object": (k8s_name) => signs({ k8s_name }),
  "a caller at the control plane": (caller) => accepts(() => checkCaller(caller)),
  "an intent's caller": (caller) => permits({ caller }),
  "an intent's end user": (endUser) => permits({ endUser }),
  "a KeyId's caller": (caller) => keyIdOf({ caller }),
  "a KeyId's end user": (endUser) => keyIdOf({ endUser }),
  "a frozen subject": (value) => freezeRequest.safeParse({ kind: "end_user", value }).success,
  "a host's name": (name) => loads(name, {}),
  "a host's account": (user) => loads("web01", { user }),
  "a host's principal": (principal) => loads("web01", { principal }),
  "a transferred file's path": (path) => accepts(() => checkPath(path)),
};

/** Functions that accept spaces: a reader's CN can contain one, and a grant's scope too. */
const DOORS_FOR_BLANKS: Readonly<Record<string, (name: string) => boolean>> = {
  "a certificate's CN": (cn) => callerFromCertificate(true, cn) !== undefined,
  "a grant's scope": (caller) => grantRequest.safeParse({ allow: ["^id$"], ttl_seconds: 60, caller }).success,
};

const BLANK = ["al ice", "al\u00a0ice", "al\u2003ice", "al\u3000ice"];
const INVISIBLE = [
  ...["al\tice", "al\nice", "al\0ice", "al\x1bice", "al\x7fice", "al\x85ice", "al\x9bice"],
  ...["al\u2028ice", "al\u2029ice", "al\u00adice", "al\u200bice", "al\u200dice", "\ufeffalice"],
  ...["\u202eecila", "al\u2066ice", "alice\u{e0041}", "alice\ufe0f", "alice\u3164", "alice\u2800"],
  ...["alice\ue000", "alice\u{10fffd}", "alice\ud800"],
];

Deno.test.each(Object.entries(DOORS).map(([door, lets]) => ({ door, lets })))(
  "$door uses the common definition of spaces and invisible characters",
  ({ lets }) => {
    for (const name of ["alice", "brøker-1", "日本", "al-ice@example.com"]) assert.ok(lets(name), name);
    for (const name of [...BLANK, ...INVISIBLE]) assert.ok(!lets(name), JSON.stringify(name));
  },
);

Deno.test.each(Object.entries(DOORS_FOR_BLANKS).map(([door, lets]) => ({ door, lets })))(
  "$door can contain spaces but no invisible characters",
  ({ lets }) => {
    for (const name of ["alice", "brøker-1", "日本", ...BLANK]) assert.ok(lets(name), name);
    for (const name of INVISIBLE) assert.ok(!lets(name), JSON.stringify(name));
  },
);

const workingFolder = "/";

function sample(name: string): string {
  return new URL(`../deploy/${name}`, import.meta.url).pathname;
}

Deno.test("signer/deno.json contains exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("signer.json"),
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
  const set = signerPermissions(config, { configPath: "/etc/gateway/signer.json", workingFolder });
  assert.deepEqual(signerManifest.permissions, { signer: formatJson(set) });
  assert.equal(compilePolicy(config).kind, "ok");
});

Deno.test("control_plane/deno.json contains exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("control-plane.json"),
    what: "control plane config",
    schema: controlPlaneConfig,
  });
  const configPath = "/etc/gateway/control-plane.json";
  const set = controlPlanePermissions(config, { configPath, workingFolder });
  assert.deepEqual(controlPlaneManifest.permissions, { "control-plane": formatJson(set) });
});

Deno.test("broker/deno.json contains exactly the permissions that the installed config needs", async () => {
  const config = await loadConfig({
    path: sample("config.json"),
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  const derive = (frontend: BrokerFrontend) =>
    brokerPermissions(config, { configPath: "/etc/gateway/config.json", workingFolder, frontend });
  assert.deepEqual(brokerManifest.permissions, {
    broker: formatJson(derive("serve-http")),
    "broker-mcp": formatJson(derive("serve-mcp")),
    "broker-mcp-http": formatJson(derive("serve-mcp-http")),
    gateway: formatJson(mergeSets(...BROKER_FRONTENDS.map(derive))),
  });
});

Deno.test("ctl/deno.json contains exactly the permissions that the installed approval bridge needs", async () => {
  const unit = await Deno.readTextFile(sample("systemd/gateway-approval-bridge.service"));
  const variables = Object.fromEntries(
    [...unit.matchAll(/^Environment=(BRIDGE_\w+)=(.+)$/gm)].map(([, name, value]) => [name, value]),
  );
  const settings = readSettings(["--slack-channel=C0"], { variables, workingFolder });
  assert.deepEqual(ctlManifest.permissions["approval-bridge"], formatJson(bridgePermissions(settings)));
});

Deno.test("the sample config of local mode is valid", async () => {
  const config = await loadConfig({
    path: sample("local.json"),
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  assert.equal(config.signer, undefined);
  assert.deepEqual([...compileLocalPolicy(config).hosts.keys()], ["web01"]);
  const frontend = "serve-mcp";
  const { net } = brokerPermissions(config, {
    configPath: "/etc/gateway/local.json",
    workingFolder,
    frontend,
  });
  assert.deepEqual(net, ["10.0.0.11:22", "127.0.0.1:9180", "unix:/run/gateway/ca-agent.sock"]);
});
