import { AppError } from "@gateway/shared/errors";
import type { ClusterPolicy } from "@gateway/shared/policy";
import { compareRights, excessPaths, type GrantedRule } from "./compare_rights.ts";
import { type AccountName, boundAccounts, mintingRights } from "./manifests.ts";
import { formatRbacRule, type RbacRule, toRbacRules } from "./rbac_rule.ts";
import { readClaims, type Reviews } from "./reviews.ts";
import { neededRights, type Right } from "./rights.ts";

/** One thing that was looked at. */
export interface Finding {
  readonly level: "ok" | "warning" | "error";
  readonly text: string;
  /** What to do about it, or what stands where; for people. */
  readonly details: readonly string[];
}

/** What a cluster is checked with. */
interface ClusterCheck {
  readonly name: string;
  readonly cluster: ClusterPolicy;
  readonly token: string;
  readonly reviews: Reviews;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Nobody's namespaces: what an account may do there, it may do nearly everywhere. */
const ELSEWHERE = ["default", "kube-system"];
const SOON_MS = 7 * 24 * 3600 * 1000;
/** Of more rights that are too many, it is not asked which role gives them. */
const MOST_REASONS = 50;

/** What nobody but an administrator may: asked one by one where the API server can't list all rights. */
const PROBES: readonly Omit<Right, "namespace" | "name">[] = [
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
 * Reaches a cluster's API server as the signer does, and says what is amiss: with the account that makes tokens, and
 * with the rights of each account that they are made for, beside the rules. It changes nothing but that it makes one
 * token for each account.
 */
export async function checkCluster(check: ClusterCheck): Promise<readonly Finding[]> {
  const { cluster, token, reviews } = check;
  const accounts = boundAccounts(cluster);
  try {
    const minter = await checkMinter(check, accounts);
    if (minter.some(({ level }) => level === "error")) return minter;
    const findings = [...minter];
    for (const account of accounts) {
      findings.push(
        ...await attempt(`${nameOf(account)}: no token can be made`, async () => {
          const { token: minted, jti } = await reviews.mint(token, account);
          return await checkAccount(check, { account, token: minted, jti });
        }),
      );
    }
    return findings;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const details = error.message.includes("HTTP 401") ? ["renew the token in token_file"] : [];
    return [{ level: "error", text: `${cluster.api_server}: ${error.message}`, details }];
  }
}

async function checkMinter(
  { name, cluster, token, reviews, now }: ClusterCheck,
  accounts: readonly AccountName[],
): Promise<readonly Finding[]> {
  const { username, groups } = await reviews.whoAmI(token);
  const findings: Finding[] = [ok(`${cluster.api_server} answers; the token of token_file is ${username}'s`)];
  if (groups.includes("system:masters")) {
    findings.push(problem("warning", `${username} may do everything: it is in the group system:masters`));
  } else if (!username.startsWith("system:serviceaccount:")) {
    findings.push(problem("warning", `${username} is no ServiceAccount`));
  }
  if (accounts.some((account) => userOf(account) === username)) {
    findings.push(
      problem("warning", `${username} makes the tokens and is one of those that they are made for`),
    );
  }
  findings.push(...checkEnd(token, now));
  const needed = mintingRights(cluster);
  const rights = needed.flatMap(([, rights]) => rights);
  const refused: Right[] = [];
  for (const right of rights) {
    if (!(await reviews.mayI(token, right)).allowed) refused.push(right);
  }
  findings.push(
    ...describeMissing("error", username, refused, `broker-ctl cluster enrol ${name} --print has the role`),
  );
  const namespaces = needed.map(([namespace]) => namespace);
  const who = { user: username, purpose: "making tokens does not call for it", token };
  const excess = await findExcess(reviews, who, { namespaces, needed: rights });
  return [
    ...findings,
    ...excess.findings,
    ...summary(excess, `${username} may make the tokens, and nothing else`),
  ];
}

async function checkAccount(
  { cluster, reviews }: ClusterCheck,
  { account, token, jti }: { readonly account: AccountName; readonly token: string; readonly jti: string },
): Promise<readonly Finding[]> {
  const needed = neededRights(cluster);
  const named = needed.flatMap(({ namespace }) => namespace === undefined ? [] : [namespace]);
  const user = nameOf(account);
  const who = { user, purpose: "no rule calls for it", token };
  const excess = await findExcess(reviews, who, { namespaces: [...named, account.namespace], needed });
  return [
    {
      ...ok(`${user}: a token was made for this check${jti === "" ? "" : `, id ${jti}`}`),
      details: [
        ...(jti === "" ? [] : [`broker-ctl audit show --join takes it for explained with --checked ${jti}`]),
        `its rights are looked at in ${excess.namespaces.toSorted().join(", ")}; in others it may have more`,
      ],
    },
    ...excess.findings,
    ...describeMissing("warning", user, excess.missing, "the rules allow what the cluster refuses"),
    ...summary(excess, `${user} may do what the rules allow, and nothing else`),
  ];
}

interface Excess {
  readonly findings: readonly Finding[];
  readonly missing: readonly Right[];
  readonly namespaces: readonly string[];
}

interface Holder {
  readonly user: string;
  /** Why a right is too much. */
  readonly purpose: string;
  readonly token: string;
}

async function findExcess(
  reviews: Reviews,
  { user, purpose, token }: Holder,
  { namespaces, needed }: { readonly namespaces: readonly string[]; readonly needed: readonly Right[] },
): Promise<Excess> {
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
    findings.push({
      level: "warning",
      text: `${user} may ${describeRule(rule)}: ${purpose}`,
      details: [`${reason === "" ? "" : `${reason}; `}take away ${formatRbacRule(rule)}`],
    });
  }
  if (paths.size > 0) {
    findings.push(
      problem("warning", `${user} may ${[...paths].join(", ")}, which are no objects: ${purpose}`),
    );
  }
  if (isIncomplete) {
    findings.push(
      problem("warning", `${user} may do more than the API server can list`),
      ...await probe(reviews, {
        user,
        purpose,
        token,
      }),
    );
  }
  return { findings, missing: isIncomplete ? [] : missing, namespaces: [...granted.keys()] };
}

async function probe(reviews: Reviews, { user, purpose, token }: Holder): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const question of PROBES) {
    const { allowed, reason } = await reviews.mayI(token, question);
    if (!allowed) continue;
    const text = `${user} may ${question.verb} ${question.resource} in all namespaces: ${purpose}`;
    findings.push({ level: "warning", text, details: reason === "" ? [] : [reason] });
  }
  return findings;
}

/** Which binding of which role gives a right, in the API server's words. */
async function findReason(reviews: Reviews, token: string, rule: GrantedRule): Promise<string> {
  const [group = "", resource = "", verb = ""] = [rule.apiGroups[0], rule.resources[0], rule.verbs[0]];
  const { allowed, reason } = await reviews.mayI(token, {
    namespace: rule.namespaces[0],
    group,
    resource,
    verb,
    name: rule.resourceNames?.[0],
  });
  return allowed ? reason : "";
}

function checkEnd(token: string, now: number): readonly Finding[] {
  const end = readClaims(token)?.exp;
  if (end === undefined) return [];
  const left = end * 1000 - now;
  const time = new Date(end * 1000).toISOString().replace(".000Z", "Z");
  if (left > SOON_MS) return [ok(`the token of token_file ends ${time}`)];
  return [problem("warning", `the token of token_file ends ${time}: renew it before`)];
}

async function attempt(what: string, action: () => Promise<readonly Finding[]>): Promise<readonly Finding[]> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return [problem("error", `${what}: ${error.message}`)];
  }
}

function summary({ findings, missing }: Excess, text: string): readonly Finding[] {
  return findings.length === 0 && missing.length === 0 ? [ok(text)] : [];
}

function describeMissing(
  level: Finding["level"],
  user: string,
  rights: readonly Right[],
  advice: string,
): readonly Finding[] {
  return [...Map.groupBy(rights, ({ namespace }) => namespace)].flatMap(([namespace, rights]) =>
    toRbacRules(rights).map((rule) => {
      const what = describeRule({ ...rule, namespaces: [namespace ?? "all namespaces"] });
      return {
        level,
        text: `${user} may not ${what}`,
        details: [`${advice}; needed: ${formatRbacRule(rule)}`],
      };
    })
  );
}

function describeRule({ verbs, resources, apiGroups, resourceNames, namespaces }: GrantedRule): string {
  const [group = ""] = apiGroups;
  const names = resourceNames === undefined ? "" : ` ${resourceNames.join(", ")}`;
  return `${verbs.join(", ")} ${resources[0]}${group === "" ? "" : `.${group}`}${names} in ${
    namespaces.join(", ")
  }`;
}

function ok(text: string): Finding {
  return { level: "ok", text, details: [] };
}

function problem(level: Finding["level"], text: string): Finding {
  return { level, text, details: [] };
}

function nameOf({ namespace, name }: AccountName): string {
  return `${namespace}/${name}`;
}

function userOf({ namespace, name }: AccountName): string {
  return `system:serviceaccount:${namespace}:${name}`;
}
