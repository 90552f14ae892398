import { resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { ApiServer } from "@gateway/shared/kubernetes";
import { type AccountName, boundAccounts, clusterOf, mintingRights } from "./entry.ts";
import { readClaims, Reviews } from "./reviews.ts";
import { command } from "../kit/command.ts";
import { type Advice, badConfig, withHint } from "../kit/output.ts";
import { readOperatorText } from "../kit/files.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { INDENT } from "../kit/table.ts";
import { AppError } from "@gateway/shared/errors";
import { formatTimestamp } from "@gateway/shared/wire";
import type { ClusterPolicy } from "@gateway/shared/policy";
import {
  compareRights,
  excessPaths,
  formatRbacRule,
  type GrantedRule,
  neededRights,
  type RbacRule,
  type Right,
  toRbacRules,
} from "./rights.ts";

const MISSING: Advice = {
  when: ({ code }) => code === "not_found",
  hint:
    "broker-ctl cluster enroll --print shows how to create it; relative paths are relative to the working directory",
};

const LABEL = { ok: "ok", warning: "WARNING", error: "ERROR" } as const satisfies Record<
  Finding["level"],
  string
>;

/** `cluster check`: tries a cluster, and compares the rights of its accounts with the rules. */
export const CHECK = command({
  name: "check",
  summary: "Check a cluster's connection and its accounts' rights.",
  takes: { "<name>": "cluster name" },
  help: `
Examples:
  broker-ctl cluster check prod --config /etc/gateway/signer.json

Connects to the API server as the signer does, with only ca_cert and the token of token_file. Checks the account that
issues tokens. Then issues one token for each account of sa_bindings and compares the account's rights with the rules. A
right that no rule needs is a warning with the role that grants it and the RBAC line to remove. Checked namespaces:
those of the rules and accounts, default and kube-system. The output lists the token IDs for the API server's audit log.
Exit code 1: a problem was found. Relative paths in the config are relative to the working directory.
`,
  async run({ name, config }, { workingFolder }) {
    const cluster = clusterOf(await loadSignerFile(config, workingFolder), name);
    const read = async (key: "ca_cert" | "token_file") => {
      const path = resolve(workingFolder, cluster[key]);
      return await withHint(MISSING, () => readOperatorText(path, key));
    };
    const [ca, token] = [await read("ca_cert"), (await read("token_file")).trim()];
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw badConfig("Cannot use token_file: expected exactly one token");
    }
    using server = new ApiServer({ url: cluster.api_server, ca, clock: systemClock });
    const reviews = new Reviews(server);
    const findings = await checkCluster({ name, cluster, token, reviews, now: systemClock.now() });
    const failed = findings.some(({ level }) => level !== "ok");
    return {
      json: { cluster: name, ok: !failed, findings },
      lines: findings.flatMap(({ level, text, details }) => [
        `${LABEL[level]}: ${text}`,
        ...details.map((detail) => `${INDENT}${detail}`),
      ]),
      failed,
    };
  },
});

/** A fact about a cluster, with its fix or source. */
export interface Finding {
  readonly level: "ok" | "warning" | "error";
  readonly text: string;
  readonly details: readonly string[];
}

interface ClusterCheck {
  readonly name: string;
  readonly cluster: ClusterPolicy;
  readonly token: string;
  readonly reviews: Reviews;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Namespaces that no rule uses: an account with rights there has them nearly everywhere. */
const ELSEWHERE = ["default", "kube-system"];
const SOON_MS = 7 * 24 * 3600 * 1000;
/** The check asks for the source of this many excessive rights. */
const MOST_REASONS = 50;

/** Rights of administrators, checked one by one if the API server cannot list all rights. */
const PROBES: readonly Right[] = [
  { group: "*", resource: "*", verb: "*" },
  { group: "", resource: "secrets", verb: "get" },
  { group: "", resource: "secrets", verb: "list" },
  { group: "", resource: "serviceaccounts/token", verb: "create" },
  { group: "", resource: "pods", verb: "create" },
  { group: "", resource: "pods/exec", verb: "create" },
  { group: "", resource: "users", verb: "impersonate" },
  { group: "", resource: "serviceaccounts", verb: "impersonate" },
  { group: "rbac.authorization.k8s.io", resource: "clusterroles", verb: "escalate" },
  { group: "rbac.authorization.k8s.io", resource: "clusterrolebindings", verb: "create" },
  { group: "rbac.authorization.k8s.io", resource: "rolebindings", verb: "create" },
];

/**
 * Connects to a cluster's API server as the signer does, and reports problems of the account that issues tokens, and of
 * the rights of each account of sa_bindings. Issues one token for each account, and changes nothing else.
 */
export async function checkCluster(check: ClusterCheck): Promise<readonly Finding[]> {
  const { cluster, token, reviews } = check;
  const accounts = boundAccounts(cluster);
  try {
    const findings = [...await checkMinter(check, accounts)];
    if (findings.some(({ level }) => level === "error")) return findings;
    for (const account of accounts) {
      const user = `${account.namespace}/${account.name}`;
      try {
        const { token: minted, jti } = await reviews.mint(token, account);
        findings.push(...await checkAccount(check, { account, user, token: minted, jti }));
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        findings.push(found("error", `${user}: cannot issue a token: ${error.message}`));
      }
    }
    return findings;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const fix = error.message.includes("HTTP 401") ? ["renew the token in token_file"] : [];
    return [found("error", `${cluster.api_server}: ${error.message}`, ...fix)];
  }
}

function found(level: Finding["level"], text: string, ...details: readonly string[]): Finding {
  return { level, text, details };
}

async function checkMinter(
  { name, cluster, token, reviews, now }: ClusterCheck,
  accounts: readonly AccountName[],
): Promise<readonly Finding[]> {
  const { username, groups } = await reviews.whoAmI(token);
  const findings = [
    found("ok", `${cluster.api_server} responds; the token of token_file belongs to ${username}`),
  ];
  if (groups.includes("system:masters")) {
    findings.push(found("warning", `${username} has all rights: it is in the group system:masters`));
  } else if (!username.startsWith("system:serviceaccount:")) {
    findings.push(found("warning", `${username} is not a ServiceAccount`));
  }
  if (accounts.some(({ namespace, name }) => `system:serviceaccount:${namespace}:${name}` === username)) {
    findings.push(found("warning", `${username} issues tokens, and is itself in sa_bindings`));
  }
  const end = readClaims(token)?.exp;
  if (end !== undefined) {
    const time = `the token of token_file expires ${formatTimestamp(end * 1000)}`;
    findings.push(
      end * 1000 - now > SOON_MS ? found("ok", time) : found("warning", `${time}: renew it soon`),
    );
  }
  const minting = mintingRights(cluster);
  const needed = minting.flatMap(([, rights]) => rights);
  const refused: Right[] = [];
  for (const right of needed) {
    if (!(await reviews.mayI(token, right)).allowed) refused.push(right);
  }
  const role = `broker-ctl cluster enroll ${name} --print contains the role`;
  const who = { user: username, purpose: "issuing tokens does not need it", token };
  const excess = await findExcess(reviews, who, minting.map(([namespace]) => namespace), needed);
  return [
    ...findings,
    ...describeMissing("error", username, refused, role),
    ...excess.findings,
    ...summary(excess, `${username} may only issue the tokens`),
  ];
}

async function checkAccount(
  { cluster, reviews }: ClusterCheck,
  { account, user, token, jti }: {
    readonly account: AccountName;
    readonly user: string;
    readonly token: string;
    readonly jti: string;
  },
): Promise<readonly Finding[]> {
  const needed = neededRights(cluster);
  const named = needed.flatMap(({ namespace = [] }) => namespace);
  const who = { user, purpose: "no rule needs it", token };
  const excess = await findExcess(reviews, who, [...named, account.namespace], needed);
  return [
    found(
      "ok",
      `${user}: token issued for this check${jti === "" ? "" : `, ID ${jti}`}`,
      ...(jti === ""
        ? []
        : [`to explain it in the cluster's audit log: broker-ctl audit show --join --checked ${jti}`]),
      `checked namespaces: ${excess.namespaces.toSorted().join(", ")}; it may have more rights in others`,
    ),
    ...excess.findings,
    ...describeMissing("warning", user, excess.missing, "the rules allow it, but the cluster denies it"),
    ...summary(excess, `${user} has exactly the rights that the rules need`),
  ];
}

async function findExcess(
  reviews: Reviews,
  { user, purpose, token }: { readonly user: string; readonly purpose: string; readonly token: string },
  namespaces: readonly string[],
  needed: readonly Right[],
) {
  const granted = new Map<string, readonly RbacRule[]>();
  const paths = new Set<string>();
  let isIncomplete = false;
  for (const namespace of new Set([...namespaces, ...ELSEWHERE])) {
    const { rules, paths: open, incomplete } = await reviews.rulesIn(token, namespace);
    granted.set(namespace, rules);
    for (const path of excessPaths(open)) paths.add(path);
    isIncomplete ||= incomplete;
  }
  const { excess, missing } = compareRights(granted, needed);
  const findings: Finding[] = [];
  for (const [index, rule] of excess.entries()) {
    const reason = index < MOST_REASONS ? await findReason(reviews, token, rule) : "";
    const fix = `${reason === "" ? "" : `${reason}; `}remove ${formatRbacRule(rule)}`;
    findings.push(found("warning", `${user} may ${describeRule(rule)}: ${purpose}`, fix));
  }
  if (paths.size > 0) {
    const all = [...paths].join(", ");
    findings.push(found("warning", `${user} may ${all}: ${purpose}`));
  }
  if (isIncomplete) {
    findings.push(found("warning", `${user} may have more rights than the API server can list`));
    for (const probe of PROBES) {
      const { allowed, reason } = await reviews.mayI(token, probe);
      if (!allowed) continue;
      const text = `${user} may ${probe.verb} ${probe.resource} in all namespaces: ${purpose}`;
      findings.push(found("warning", text, ...(reason === "" ? [] : [reason])));
    }
  }
  return { findings, missing: isIncomplete ? [] : missing, namespaces: [...granted.keys()] };
}

/** The binding and the role that grant a right, as the API server describes them. */
async function findReason(
  reviews: Reviews,
  token: string,
  { namespaces, apiGroups, resources, verbs, resourceNames }: GrantedRule,
): Promise<string> {
  const [group = "", resource = "", verb = ""] = [apiGroups[0], resources[0], verbs[0]];
  const right = { namespace: namespaces[0], group, resource, verb, name: resourceNames?.[0] };
  const { allowed, reason } = await reviews.mayI(token, right);
  return allowed ? reason : "";
}

function summary({ findings, missing }: Awaited<ReturnType<typeof findExcess>>, text: string) {
  return findings.length === 0 && missing.length === 0 ? [found("ok", text)] : [];
}

function describeMissing(level: Finding["level"], user: string, rights: readonly Right[], advice: string) {
  return [...Map.groupBy(rights, ({ namespace = "all namespaces" }) => namespace)].flatMap((
    [namespace, rights],
  ) =>
    toRbacRules(rights).map((rule) => {
      const what = describeRule({ ...rule, namespaces: [namespace] });
      return found(level, `${user} may not ${what}`, `${advice}; needed: ${formatRbacRule(rule)}`);
    })
  );
}

function describeRule({ verbs, resources, apiGroups: [group = ""], resourceNames, namespaces }: GrantedRule) {
  const kind = group === "" ? resources[0] : `${resources[0]}.${group}`;
  const names = resourceNames === undefined ? "" : ` ${resourceNames.join(", ")}`;
  return `${verbs.join(", ")} ${kind}${names} in ${namespaces.join(", ")}`;
}
