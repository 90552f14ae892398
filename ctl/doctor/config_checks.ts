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
import { fail, type Finding, pass, warn } from "./finding.ts";

type Common = Pick<SignerConfig, "redact" | "monitor_listen" | "denied_callers" | "audit_fail_mode">;

const PRIVATE_RANGES: ReadonlySet<string> = new Set(["loopback", "private", "uniqueLocal", "linkLocal"]);
const ON_THIS_MACHINE = /^(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+$/;
/** So many names are shown of a longer list. */
const SHOWN = 3;

/** What is to be said of a signer's config. */
export function checkSigner(file: string, config: SignerConfig): readonly Finding[] {
  return [
    ...checkLoads(file, [...findSignerProblems(config), ...maskingProblems(config)]),
    checkCallers(file, config),
    ...checkCustody(file, config, opensNothing(config)),
    config.sign_rate_limit_per_min > 0
      ? pass(file, "sign_rate_limit_per_min bounds each caller")
      : warn(file, "sign_rate_limit_per_min is 0: no caller is bounded", "set it, such as 600"),
    checkState(file, config.state_db, "grants and freezes"),
    checkPrincipals(file, config),
    checkSessions(file, config),
    ...config.krl_callers === undefined || Object.keys(config.krl_callers).length > 0 ||
        Object.keys(config.hosts).length === 0
      ? [pass(file, "hosts fetch the revocation list")]
      : [warn(
        file,
        "no host fetches the revocation list: it believes a stolen certificate until that ends",
        "broker-ctl host krl, for each host",
      )],
    ...checkCommon(file, config),
  ];
}

/** What is to be said of a control plane's config. */
export function checkControlPlane(file: string, config: ControlPlaneConfig): readonly Finding[] {
  return [
    ...checkLoads(file, maskingProblems(config)),
    config.approval.callers.length === 0 || config.sign_callers.length > 0
      ? pass(file, "sign_callers names the brokers")
      : fail(
        file,
        "sign_callers is empty: every certificate of client_ca that is not an approver's may request certificates",
        "list the CNs of the brokers in sign_callers",
      ),
    checkState(file, config.state_db, "approvals"),
    ...checkCommon(file, config),
  ];
}

/** What is to be said of a broker's config. */
export function checkBroker(file: string, config: BrokerConfig): readonly Finding[] {
  const isLocal = config.signer === undefined;
  return [
    ...checkLoads(file, [
      ...isLocal ? findPolicyProblems(localPolicy(config)) : [],
      ...maskingProblems(config),
    ]),
    ...isLocal ? checkCustody(file, config, false) : [],
    ...checkAgents(file, config),
    ...checkCommon(file, {
      ...config,
      denied_callers: config.client_ca === "" ? "-" : config.denied_callers,
    }),
  ];
}

/** Which agents run as an account that can read the broker's keys. */
function checkAgents(file: string, { server_cert, sockets }: BrokerConfig): readonly Finding[] {
  if (server_cert === "") {
    const fix =
      "start serve-http with sockets, and connect the agent with gateway connect from an account of its own";
    return [
      warn(
        file,
        "the account that starts serve-mcp with this config, and so the agent, can read its keys",
        fix,
      ),
    ];
  }
  const own = sockets.filter(({ mode }) => mode === "0600").map(({ caller }) => quoteText(caller)).join(", ");
  if (own === "") return [pass(file, "no agent needs the broker's account")];
  const fix =
    "give the agent an account of its own, and its socket mode 0660 in a directory of that account's group";
  return [
    warn(file, `agents that run as the broker's account can read its keys (socket mode 0600): ${own}`, fix),
  ];
}

/** What is well-formed key by key can still be something that no service takes. */
function checkLoads(file: string, problems: readonly string[]): readonly Finding[] {
  if (problems.length === 0) return [pass(file, "the service takes it")];
  const fix = "mend what it says: a service that runs keeps what it has, and does not start again";
  const more = problems.length - SHOWN;
  return [...problems.slice(0, SHOWN), ...more > 0 ? [`${more} more problems`] : []]
    .map((problem) => fail(file, `the service does not take it: ${problem}`, fix));
}

function maskingProblems({ redact }: Pick<Common, "redact">): readonly string[] {
  try {
    createRedactor(redact);
    return [];
  } catch (error) {
    if (error instanceof AppError) return [error.message];
    throw error;
  }
}

function checkCallers(file: string, { callers }: SignerConfig): Finding {
  if (Object.keys(callers).length === 0) {
    return warn(
      file,
      "there are no callers: every certificate of client_ca may use every host",
      "name the brokers in callers",
    );
  }
  const fallback = Object.hasOwn(callers, "_default") ? callers["_default"] : undefined;
  // Absent and null: every group. An empty list: none.
  const groups = fallback?.allowed_groups;
  return fallback === undefined || (Array.isArray(groups) && groups.length === 0)
    ? pass(file, "callers names who may use which hosts")
    : warn(file, "callers._default grants groups to whoever is not named", "set its allowed_groups to []");
}

/** Whether the CA key logs in to no machine but this one, as after an untouched `init`. */
function opensNothing({ listen, hosts, policy_source }: SignerConfig): boolean {
  return policy_source === "file" &&
    [listen, ...Object.values(hosts).map(({ addr }) => addr)].every((address) =>
      ON_THIS_MACHINE.test(address)
    );
}

function checkCustody(
  file: string,
  config: Pick<SignerConfig, "ca_key" | "ca_keys">,
  isLab: boolean,
): readonly Finding[] {
  const plan = planCaKeys(config);
  const files = Object.entries(config.ca_keys).filter(([, { type }]) => type === "pem").map(([group]) =>
    group
  );
  const legacy = config.ca_key !== "" && !Object.hasOwn(config.ca_keys, "_default");
  const findings = [
    ...files.map((group) =>
      fail(
        file,
        `ca_keys.${group} is a key in a file: anyone who can read it can log in to the hosts that trust it`,
        "move the key to an agent or a vault: broker-ctl ca-keys add, with --force",
      )
    ),
    ...legacy
      ? [
        isLab
          ? warn(
            file,
            "ca_key is a key in a file, and no host on another machine is configured yet",
            "before you add one, move the key to an agent or a vault: broker-ctl ca-keys add --name _default",
          )
          : fail(
            file,
            "ca_key is a key in a file: anyone who can read it can log in to every enrolled host",
            "move the key to an agent or a vault: broker-ctl ca-keys add --name _default",
          ),
      ]
      : [],
    ...plan === undefined ? [warn(file, "there is no default CA key", "set ca_keys._default")] : [],
  ];
  return findings.length > 0 ? findings : [pass(file, "CA keys are in an agent or a vault")];
}

function checkState(file: string, path: string, what: string): Finding {
  return path === ""
    ? warn(file, `state_db is empty: ${what} are lost with a restart`, "name a file")
    : pass(file, `${what} survive a restart`);
}

function checkPrincipals(file: string, { hosts }: SignerConfig): Finding {
  const byPrincipal = Map.groupBy(Object.entries(hosts), ([, { principal }]) => principal ?? "");
  const shared = [...byPrincipal].filter(([principal, hosts]) => principal !== "" && hosts.length > 1);
  if (shared.length === 0) return pass(file, "each host has a principal of its own");
  const shown = shared.slice(0, SHOWN).map(([principal, hosts]) =>
    `${quoteText(principal)} (${hosts.slice(0, SHOWN).map(([name]) => name).join(", ")}${
      hosts.length > SHOWN ? ", …" : ""
    })`
  );
  const more = shared.length > SHOWN ? ` and ${shared.length - SHOWN} more` : "";
  return warn(
    file,
    `hosts share principals: a certificate for one opens the others: ${shown.join(", ")}${more}`,
    "give each host its own, and broker-ctl host enrol it",
  );
}

/** A certificate of such a session is locked to nothing: command rules are the broker's to keep. */
function checkSessions(file: string, config: SignerConfig): Finding {
  const compiled = compilePolicy(config);
  const hosts = compiled.kind === "invalid" ? [] : [...compiled.policy.hosts.values()];
  const open = hosts.filter(({ unsealedSessions, seal, commands }) =>
    unsealedSessions && seal === undefined && commands.restricts
  ).map(({ name }) => name);
  if (open.length === 0) return pass(file, "command rules bind sessions");
  return warn(
    file,
    `an attacker who compromises a broker runs any command on hosts with command rules, in sessions: ${
      open.slice(0, SHOWN).join(", ")
    }${open.length > SHOWN ? ` and ${open.length - SHOWN} more` : ""}`,
    'set "unsealed_sessions": false on the host, or seal it: broker-ctl host seal',
  );
}

function checkCommon(
  file: string,
  { redact, monitor_listen, denied_callers, audit_fail_mode }: Common,
): readonly Finding[] {
  const isEmpty = redact?.disable_defaults === true && (redact.patterns ?? []).length === 0;
  return [
    isEmpty
      ? warn(
        file,
        "redact has no rule: secrets in commands stay in the audit log",
        "remove disable_defaults, or name patterns",
      )
      : pass(file, "secrets are masked"),
    isOpen(monitor_listen)
      ? fail(
        file,
        `monitor_listen ${quoteText(monitor_listen)} shows metrics to anybody`,
        "listen on loopback or a private address",
      )
      : pass(file, "the monitor is private"),
    denied_callers === ""
      ? warn(
        file,
        "there is no denied_callers: a lost certificate is good until it ends",
        "name the list that broker-ctl identity revoke makes",
      )
      : pass(file, "certificates can be revoked"),
    audit_fail_mode === "open"
      ? warn(file, "audit_fail_mode is open: what can't be recorded happens all the same", "closed")
      : pass(file, "nothing happens without its record"),
  ];
}

/** Whether an address is reached from where anybody may be. */
function isOpen(listen: string): boolean {
  if (listen === "") return false;
  const { hostname } = parseListenAddress(listen);
  if (hostname === "localhost") return false;
  return !ipaddr.isValid(hostname) || !PRIVATE_RANGES.has(ipaddr.process(hostname).range());
}
