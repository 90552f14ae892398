import ipaddr from "ipaddr.js";
import { type BrokerConfig, localPolicy } from "@gateway/broker/config";
import type { ControlPlaneConfig } from "@gateway/control-plane/config";
import { planCaKeys } from "@gateway/shared/ca";
import { parseListenAddress } from "@gateway/shared/http";
import { AppError } from "@gateway/shared/errors";
import { compilePolicy, findPolicyProblems } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { createRedactor } from "@gateway/shared/redact";
import type { SignerConfig } from "@gateway/signer/config";
import { findSignerProblems } from "../kit/signer_file.ts";
import { fail, type Found, pass, warn } from "./findings.ts";

const PRIVATE_RANGES: ReadonlySet<string> = new Set(["loopback", "private", "uniqueLocal", "linkLocal"]);
const ON_THIS_MACHINE = /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/;
const SHOWN = 3;

export function checkSigner(config: SignerConfig): readonly Found[] {
  const { sign_rate_limit_per_min, krl_callers, hosts } = config;
  return [
    ...checkLoads([...findSignerProblems(config), ...maskingProblems(config)]),
    checkCallers(config),
    ...checkCustody(config, opensNothing(config)),
    sign_rate_limit_per_min > 0
      ? pass("sign_rate_limit_per_min bounds each caller")
      : warn("sign_rate_limit_per_min is 0: no caller is bounded", "set it, such as 600"),
    checkState(config.state_db, "grants and freezes"),
    checkPrincipals(config),
    checkSessions(config),
    krl_callers === undefined || Object.keys(krl_callers).length > 0 || Object.keys(hosts).length === 0
      ? pass("hosts fetch the revocation list")
      : warn(
        "no host fetches the revocation list: it believes a stolen certificate until that ends",
        "broker-ctl host krl, for each host",
      ),
    ...checkCommon(config),
  ];
}

export function checkControlPlane(config: ControlPlaneConfig): readonly Found[] {
  return [
    ...checkLoads(maskingProblems(config)),
    config.approval.callers.length === 0 || config.sign_callers.length > 0
      ? pass("sign_callers names the brokers")
      : fail(
        "sign_callers is empty: every certificate of client_ca that is not an approver's may request certificates",
        "list the CNs of the brokers in sign_callers",
      ),
    checkState(config.state_db, "approvals"),
    ...checkCommon(config),
  ];
}

export function checkBroker(config: BrokerConfig): readonly Found[] {
  const isLocal = config.signer === undefined;
  return [
    ...checkLoads([...isLocal ? findPolicyProblems(localPolicy(config)) : [], ...maskingProblems(config)]),
    ...isLocal ? checkCustody(config, false) : [],
    checkAgents(config),
    ...checkCommon({ ...config, denied_callers: config.client_ca === "" ? "-" : config.denied_callers }),
  ];
}

/** An agent that runs as the broker's account can read the broker's keys. */
function checkAgents({ server_cert, sockets }: BrokerConfig): Found {
  if (server_cert === "") {
    return warn(
      "the account that starts serve-mcp with this config, and so the agent, can read its keys",
      "start serve-http with sockets, and connect the agent with gateway connect from an account of its own",
    );
  }
  const own = sockets.filter(({ mode }) => mode === "0600").map(({ caller }) => quoteText(caller)).join(", ");
  if (own === "") return pass("no agent needs the broker's account");
  return warn(
    `agents that run as the broker's account can read its keys (socket mode 0600): ${own}`,
    "give the agent an account of its own, and its socket mode 0660 in a directory of that account's group",
  );
}

/** A service can reject a config whose keys are all well-formed. */
function checkLoads(problems: readonly string[]): readonly Found[] {
  if (problems.length === 0) return [pass("the service takes it")];
  const more = problems.length - SHOWN;
  return [...problems.slice(0, SHOWN), ...more > 0 ? [`${more} more problems`] : []].map((problem) =>
    fail(
      `the service does not take it: ${problem}`,
      "mend what it says: a service that runs keeps what it has, and does not start again",
    )
  );
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
      "there are no callers: every certificate of client_ca may use every host",
      "name the brokers in callers",
    );
  }
  const fallback = Object.hasOwn(callers, "_default") ? callers["_default"] : undefined;
  // Absent and null mean every group, an empty list means none.
  const groups = fallback?.allowed_groups;
  return fallback === undefined || (Array.isArray(groups) && groups.length === 0)
    ? pass("callers names who may use which hosts")
    : warn("callers._default grants groups to whoever is not named", "set its allowed_groups to []");
}

/** Whether the CA key opens only this machine, as after an unchanged `init`. */
function opensNothing({ listen, hosts, policy_source }: SignerConfig): boolean {
  const addresses = [listen, ...Object.values(hosts).map(({ addr }) => addr)];
  return policy_source === "file" && addresses.every((address) => ON_THIS_MACHINE.test(address));
}

function checkCustody(config: Pick<SignerConfig, "ca_key" | "ca_keys">, isLab: boolean) {
  const found = Object.entries(config.ca_keys).filter(([, { type }]) => type === "pem").map(([group]) =>
    fail(
      `ca_keys.${group} is a key in a file: anyone who can read it can log in to the hosts that trust it`,
      "move the key to an agent or a vault: broker-ctl ca-keys add, with --force",
    )
  );
  if (config.ca_key !== "" && !Object.hasOwn(config.ca_keys, "_default")) {
    const fix = "move the key to an agent or a vault: broker-ctl ca-keys add --name _default";
    found.push(
      isLab
        ? warn(
          "ca_key is a key in a file, and no host on another machine is configured yet",
          `before you add one, ${fix}`,
        )
        : fail("ca_key is a key in a file: anyone who can read it can log in to every enrolled host", fix),
    );
  }
  if (planCaKeys(config) === undefined) {
    found.push(warn("there is no default CA key", "set ca_keys._default"));
  }
  return found.length > 0 ? found : [pass("CA keys are in an agent or a vault")];
}

function checkState(path: string, what: string): Found {
  return path === ""
    ? warn(`state_db is empty: ${what} are lost with a restart`, "name a file")
    : pass(`${what} survive a restart`);
}

function firstOf(texts: readonly string[]): string {
  const more = texts.length > SHOWN ? ` and ${texts.length - SHOWN} more` : "";
  return `${texts.slice(0, SHOWN).join(", ")}${more}`;
}

function checkPrincipals({ hosts }: SignerConfig): Found {
  const byPrincipal = Map.groupBy(Object.entries(hosts), ([, { principal }]) => principal ?? "");
  const shared = [...byPrincipal].filter(([principal, hosts]) => principal !== "" && hosts.length > 1);
  if (shared.length === 0) return pass("each host has a principal of its own");
  const shown = shared.map(([principal, hosts]) => {
    const names = hosts.slice(0, SHOWN).map(([name]) => name).join(", ");
    return `${quoteText(principal)} (${names}${hosts.length > SHOWN ? ", …" : ""})`;
  });
  return warn(
    `hosts share principals: a certificate for one opens the others: ${firstOf(shown)}`,
    "give each host its own, and broker-ctl host enrol it",
  );
}

/** A certificate for a session is not locked to a command: only the broker enforces the command rules there. */
function checkSessions(config: SignerConfig): Found {
  const compiled = compilePolicy(config);
  const hosts = compiled.kind === "invalid" ? [] : [...compiled.policy.hosts.values()];
  const open = hosts.filter(({ unsealed_sessions, seal, commands }) =>
    unsealed_sessions !== false && seal === undefined && commands.restricts
  ).map(({ name }) => name);
  if (open.length === 0) return pass("command rules bind sessions");
  return warn(
    "an attacker who compromises a broker runs any command on hosts with command rules, in sessions: " +
      firstOf(open),
    'set "unsealed_sessions": false on the host, or seal it: broker-ctl host seal',
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
      ? warn(
        "redact has no rule: secrets in commands stay in the audit log",
        "remove disable_defaults, or name patterns",
      )
      : pass("secrets are masked"),
    isOpen(monitor_listen)
      ? fail(
        `monitor_listen ${quoteText(monitor_listen)} shows metrics to anybody`,
        "listen on loopback or a private address",
      )
      : pass("the monitor is private"),
    denied_callers === ""
      ? warn(
        "there is no denied_callers: a lost certificate is good until it ends",
        "name the list that broker-ctl identity revoke makes",
      )
      : pass("certificates can be revoked"),
    audit_fail_mode === "open"
      ? warn("audit_fail_mode is open: what can't be recorded happens all the same", "closed")
      : pass("nothing happens without its record"),
  ];
}

function isOpen(listen: string): boolean {
  if (listen === "") return false;
  const { hostname } = parseListenAddress(listen);
  if (hostname === "localhost") return false;
  return !ipaddr.isValid(hostname) || !PRIVATE_RANGES.has(ipaddr.process(hostname).range());
}
