import ipaddr from "ipaddr.js";
import { type BrokerConfig, localPolicy } from "@gateway/broker/config";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import { planCaKeys } from "@gateway/shared/ca";
import { parseListenAddress } from "@gateway/shared/http";
import { AppError } from "@gateway/shared/errors";
import { isSecurityKey, parseApprovalKey } from "@gateway/shared/proofs";
import { compilePolicy, findPolicyProblems } from "@gateway/shared/policy";
import { lintPolicy } from "@gateway/shared/policy/analysis";
import { quoteText, shellQuote } from "@gateway/shared/text";
import { createRedactor } from "@gateway/shared/redact";
import type { SignerConfig } from "@gateway/signer/config";
import { findSignerProblems, type HostConfig, requireTests } from "../kit/signer_file.ts";
import { fail, type Found, pass, postureOf, warn } from "./findings.ts";

const PRIVATE_RANGES: ReadonlySet<string> = new Set(["loopback", "private", "uniqueLocal", "linkLocal"]);
const ON_THIS_MACHINE = /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/;
const SHOWN = 3;

export function checkSigner(config: SignerConfig): readonly Found[] {
  const { sign_rate_limit_per_min, krl_callers, hosts } = config;
  return [
    ...checkLoads([...findSignerProblems(config), ...maskingProblems(config)]),
    checkCallers(config),
    ...checkCustody(config, isLocalOnly(config)),
    sign_rate_limit_per_min > 0
      ? pass("sign_rate_limit_per_min bounds each caller")
      : warn("sign_rate_limit_per_min is 0: callers have no limit", 'set "sign_rate_limit_per_min": 600'),
    checkState(config.state_db, "grants and freezes", "signer"),
    checkPrincipals(config),
    checkSessions(config),
    ...checkApprovers(config),
    krl_callers === undefined || Object.keys(krl_callers).length > 0 || Object.keys(hosts).length === 0
      ? pass("hosts fetch the revocation list")
      : warn(
        "no host fetches the revocation list, so a stolen certificate stays valid",
        `for each host, such as ${firstOf(Object.keys(hosts))}: broker-ctl host krl HOST`,
      ),
    ...checkCommon(config),
  ];
}

/** Weak points of signed approvals. Without approvers the control plane decides, as in earlier releases. */
function checkApprovers({ approvals }: SignerConfig): readonly Found[] {
  const all = Object.entries(approvals?.approvers ?? {});
  const [[first = ""] = []] = all;
  if (approvals === undefined || all.length === 0) return [];
  const untouched = all.filter(([, { ssh_keys = [], passkeys = [] }]) =>
    passkeys.length === 0 && ssh_keys.some((line) => !isSecurityKey(parseApprovalKey(line)))
  ).map(([name]) => name);
  return [
    all.length > 1 ? pass("several people may sign approvals") : postureOf(warn(
      `only ${first} may sign approvals, and nobody may approve their own requests`,
      "broker-ctl approver add NAME --ssh-key FILE",
    )),
    untouched.length === 0 ? pass("approvers sign with passkeys or security keys") : postureOf(warn(
      `keys without user verification may sign approvals: ${untouched.slice(0, SHOWN).join(", ")}`,
      "ssh-keygen -t ed25519-sk -O verify-required, then broker-ctl approver edit NAME --ssh-key FILE",
    )),
  ];
}

export function checkControlPlane(config: ControlPlaneConfig): readonly Found[] {
  return [
    ...checkLoads(maskingProblems(config)),
    (config.approval.callers.length === 0 && config.ui === undefined) || config.sign_callers.length > 0
      ? pass("sign_callers names the brokers")
      : fail(
        "sign_callers is empty: every certificate of client_ca that is not an approver's may request certificates",
        'set "sign_callers": ["broker-local"], with the CNs of your brokers: broker-ctl identity list',
      ),
    checkState(config.state_db, "approvals", "control-plane"),
    ...checkCommon(config),
  ];
}

export function checkBroker(config: BrokerConfig): readonly Found[] {
  const isLocal = config.signer === undefined;
  return [
    ...checkLoads([...isLocal ? findPolicyProblems(localPolicy(config)) : [], ...maskingProblems(config)]),
    ...isLocal ? checkCustody(config, false, LOCAL_AGENT) : [],
    checkAgents(config),
    ...checkCommon({ ...config, denied_callers: config.client_ca === "" ? "-" : config.denied_callers }),
  ];
}

/** An agent that runs as the broker's account can read the broker's keys. */
function checkAgents({ server_cert, sockets, signer }: BrokerConfig): Found {
  if (server_cert === "") {
    return postureOf(warn(
      "the MCP client's account can read the broker's keys, and so can its agent",
      signer === undefined
        ? "separate them: broker-ctl init --from-local DIRECTORY"
        : 'start serve-http with "sockets", and as the agent\'s own account: gateway connect SOCKET',
    ));
  }
  const own = sockets.filter(({ mode }) => mode === "0600").map(({ caller }) => quoteText(caller)).join(", ");
  if (own === "") return pass("no agent needs the broker's account");
  return postureOf(warn(
    `agents in the broker's account can read its keys (mode 0600): ${own}`,
    'set "mode": "0660", then: chgrp AGENT-GROUP DIRECTORY-OF-THE-SOCKET',
  ));
}

/** A service can reject a config although each key is well-formed. */
function checkLoads(problems: readonly string[]): readonly Found[] {
  if (problems.length === 0) return [pass("the service loads it")];
  const more = problems.length - SHOWN;
  return [...problems.slice(0, SHOWN), ...more > 0 ? [`${more} more problems`] : []].map((problem) =>
    fail(
      `the service rejects this config: ${problem}`,
      "correct the key, because the service cannot restart; then check again: broker-ctl doctor --security",
    )
  );
}

/** The risks of the rules, and the first expected decisions that they fail. */
export async function checkPolicy(config: HostConfig, path: string): Promise<readonly Found[]> {
  const compiled = compilePolicy(config);
  if (compiled.kind === "invalid") return [];
  const file = shellQuote(path);
  const lint = `broker-ctl policy lint --config ${file}`;
  const failure = await requireTests(config).catch((error) => {
    if (error instanceof AppError) return error.message.replaceAll("\n", "");
    throw error;
  });
  const found = lintPolicy(compiled.policy);
  return [
    ...failure === undefined ? [] : [
      fail(`the service rejects this config: ${failure}`, `broker-ctl policy test --config ${file}`),
    ],
    ...found.length === 0 ? [pass("the policy linter finds no risk")] : [],
    ...found.map(({ path, pattern, problem, command }) =>
      warn(
        `${path} ${quoteText(pattern)}: ${problem}${command === "" ? "" : `, for example ${command}`}`,
        lint,
      )
    ),
  ];
}

function maskingProblems({ redact }: Pick<SignerConfig, "redact">): readonly string[] {
  try {
    createRedactor(redact);
    return [];
  } catch (error) {
    if (error instanceof AppError) return [error.message];
    throw error;
  }
}

function checkCallers({ callers }: SignerConfig): Found {
  if (Object.keys(callers).length === 0) {
    return warn(
      "callers is empty: every certificate of client_ca may use every host",
      "broker-ctl callers add --name BROKER --groups GROUP",
    );
  }
  const fallback = Object.hasOwn(callers, "_default") ? callers["_default"] : undefined;
  // Absent and null mean every group, an empty list means none.
  const groups = fallback?.allowed_groups;
  return fallback === undefined || (Array.isArray(groups) && groups.length === 0)
    ? pass("callers lists who may use which hosts")
    : warn("callers._default grants groups to unlisted callers", 'set "_default": { "allowed_groups": [] }');
}

/** Checks if the CA key can open only this machine, as after `init` without changes. */
function isLocalOnly({ listen, hosts, policy_source }: SignerConfig): boolean {
  const addresses = [listen, ...Object.values(hosts).map(({ addr }) => addr)];
  return policy_source === "file" && addresses.every((address) => ON_THIS_MACHINE.test(address));
}

const AGENT = "broker-ctl ca-keys add _default --type agent --public-key-path CA.pub --socket SOCKET";
/** `ca-keys` edits only a signer's config. */
const LOCAL_AGENT =
  'set "ca_keys": { "_default": { "type": "agent", "public_key_path": "CA.pub", "socket": "SOCKET" } }';

function checkCustody(config: Pick<SignerConfig, "ca_key" | "ca_keys">, isLab: boolean, agent = AGENT) {
  const found = Object.entries(config.ca_keys).filter(([, { type }]) => type === "pem").map(([group]) =>
    postureOf(fail(
      `ca_keys.${group} is a key in a file: anyone who can read it can log in to the hosts that trust it`,
      `move the key to an agent or a vault: broker-ctl ca-keys add --name ${shellQuote(group)} --force`,
    ))
  );
  if (config.ca_key !== "" && !Object.hasOwn(config.ca_keys, "_default")) {
    found.push(postureOf(
      isLab
        ? warn("ca_key is a key in a file, and no host on another machine is configured yet", agent)
        : fail("ca_key is a key in a file: anyone who can read it can log in to every enrolled host", agent),
    ));
  }
  if (planCaKeys(config) === undefined) {
    found.push(warn("there is no default CA key", agent));
  }
  return found.length > 0 ? found : [pass("CA keys are in an agent or a vault")];
}

function checkState(path: string, what: string, service: string): Found {
  return path === ""
    ? warn(`state_db is empty: ${what} are lost at a restart`, `set "state_db": "state/${service}.db"`)
    : pass(`${what} survive a restart`);
}

function firstOf(texts: readonly string[]): string {
  const more = texts.length > SHOWN ? ` and ${texts.length - SHOWN} more` : "";
  return `${texts.slice(0, SHOWN).join(", ")}${more}`;
}

function checkPrincipals({ hosts }: SignerConfig): Found {
  const byPrincipal = Map.groupBy(Object.entries(hosts), ([, { principal }]) => principal ?? "");
  const shared = [...byPrincipal].filter(([principal, hosts]) => principal !== "" && hosts.length > 1);
  if (shared.length === 0) return pass("no hosts share a principal");
  const shown = shared.map(([principal, hosts]) => {
    const names = hosts.slice(0, SHOWN).map(([name]) => name).join(", ");
    return `${quoteText(principal)} (${names}${hosts.length > SHOWN ? ", …" : ""})`;
  });
  return warn(
    `hosts share principals: a certificate for one opens the others: ${firstOf(shown)}`,
    "for each host: broker-ctl host add --name HOST --force --principal host:HOST; broker-ctl host enroll HOST",
  );
}

/** A certificate for a session is not restricted to a command: only the broker enforces the command rules there. */
function checkSessions(config: SignerConfig): Found {
  const compiled = compilePolicy(config);
  const hosts = compiled.kind === "invalid" ? [] : [...compiled.policy.hosts.values()];
  const open = hosts.filter(({ unsealed_sessions, seal, commands }) =>
    unsealed_sessions !== false && seal === undefined && commands.restricts
  ).map(({ name }) => name);
  if (open.length === 0) return pass("command rules also apply to sessions");
  return warn(
    `an attacker who compromises a broker can bypass the command rules in sessions: ${firstOf(open)}`,
    'set "unsealed_sessions": false on the host, or run broker-ctl host seal HOST',
  );
}

function checkCommon(
  { redact, monitor_listen, denied_callers, audit_fail_mode }: Pick<
    SignerConfig,
    "redact" | "monitor_listen" | "denied_callers" | "audit_fail_mode"
  >,
): readonly Found[] {
  return [
    redact?.disable_defaults === true && (redact.patterns ?? []).length === 0
      ? warn("redact has no rules: the audit log contains secrets", 'set "disable_defaults": false')
      : pass("secrets are masked"),
    isOpen(monitor_listen)
      ? fail(
        `monitor_listen ${quoteText(monitor_listen)} is public: everyone can read the metrics`,
        'set "monitor_listen": "127.0.0.1:9160", or another private address',
      )
      : pass("the monitor is private"),
    denied_callers === ""
      ? warn(
        "denied_callers is empty: a stolen certificate stays valid until it expires",
        'touch pki/denied_callers, then set "denied_callers": "pki/denied_callers" for broker-ctl identity revoke',
      )
      : pass("certificates can be revoked"),
    audit_fail_mode === "open"
      ? warn("audit_fail_mode is open: requests can lack a record", 'set "audit_fail_mode": "closed"')
      : pass("every request needs an audit record"),
  ];
}

function isOpen(listen: string): boolean {
  if (listen === "") return false;
  const { hostname } = parseListenAddress(listen);
  if (hostname === "localhost") return false;
  return !ipaddr.isValid(hostname) || !PRIVATE_RANGES.has(ipaddr.process(hostname).range());
}
