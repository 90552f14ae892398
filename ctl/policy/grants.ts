import { systemClock } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import { elevationLabel } from "@gateway/shared/policy";
import { formatDuration, quoteText } from "@gateway/shared/text";
import { grantCreated, type GrantInfo, grantList, grantRequest, grantRevoked } from "@gateway/shared/wire";
import { actionPattern } from "../clusters/entry.ts";
import { type Call, type CommandData, type Given, repeat, required } from "../kit/command.ts";
import { parseDuration } from "../kit/values.ts";
import { readTarget } from "./explain.ts";
import { asking, askSigner, joinPath } from "../kit/remote.ts";
import { shortenIds, shortenText, timeCell } from "../kit/table.ts";
import { findById, invalid } from "../kit/output.ts";

const RULE_NOTE = `
The signer edits its signer.json, keeps the comments, and applies the change immediately. With policy_source "database"
the change is a new version of the hosts for all signers. RE2 patterns match anywhere in a command: anchor them with ^
and $. The first --allow turns the host's policy into an allowlist; an allowlist without rules denies everything. The
output warns if the pattern allows more than intended, also together with the host's other rules in --config.
`;

/** `policy add` and `policy remove`: one allow pattern of one host, permanently. */
function ruleCommand(name: "add" | "remove"): CommandData {
  const isAdded = name === "add";
  return asking({
    name,
    summary: isAdded ? "Add a pattern to a host, permanently." : "Remove a pattern from a host.",
    takes: {
      "--host <name>": required("host name"),
      "--allow <pattern>": "RE2 pattern of allowed commands",
      "--deny <pattern>": "RE2 pattern of denied commands",
      "--require-approval <pattern>": "RE2 pattern of commands that need an approval; allow them, too",
    },
    help: `
Examples:
  broker-ctl policy ${name} --host web01 --allow '^systemctl status nginx$'
  broker-ctl policy ${name} --host web01 --require-approval '^systemctl restart nginx$'
${RULE_NOTE}`,
    question: (flags) => ({
      method: isAdded ? "POST" : "DELETE",
      path: joinPath("v1", "policy", "hosts", flags.host, readPattern(flags).list),
      body: { pattern: readPattern(flags).pattern },
      schema: z.object({ status: z.string(), host: z.string(), hosts: z.int() }),
      advice: {
        404: "broker-ctl host list --remote; a signer of an earlier version knows only --allow",
        409: isAdded
          ? "the pattern exists, nothing changed; broker-ctl policy explain shows the policies"
          : "the host's own policy does not contain exactly this pattern, nothing changed",
        500: "the signer's policy is unchanged; see its log",
      },
    }),
    show({ hosts }, flags) {
      const { list, pattern } = readPattern(flags);
      const done = isAdded ? "added" : "removed";
      return [`${list} ${quoteText(pattern)} ${done} on ${flags.host} (hosts: ${hosts})`];
    },
    adds(flags) {
      const { list, pattern } = readPattern(flags);
      return isAdded ? { name: flags.host, list, patterns: [pattern] } : undefined;
    },
  });
}

function readPattern(
  { allow, deny, requireApproval }: Readonly<Partial<Record<"allow" | "deny" | "requireApproval", string>>>,
) {
  const lists = Object.entries({ allow, deny, require_approval: requireApproval });
  const [given, ...others] = lists.flatMap(([list, pattern]) =>
    pattern === undefined ? [] : [{ list, pattern }]
  );
  if (given !== undefined && others.length === 0) return given;
  throw invalid("Pass one of --allow, --deny and --require-approval");
}

export const RULES: readonly CommandData[] = [ruleCommand("add"), ruleCommand("remove")];

const GRANT_TAKES = {
  "--host <name>": "host name",
  "--cluster <name>": "cluster name, instead of --host",
  "--allow <pattern>": repeat("RE2 pattern; repeatable"),
  "--action <action>": repeat("with --cluster: <verbs> <resources> <namespaces>/<names>; repeatable"),
  "--ttl <duration>": "duration, such as 30m or 1h30m (default: 1h)",
  "--caller <cn>": "only for this caller",
  "--end-user <user>": "only for this end user",
} as const;

const GRANT = asking({
  name: "grant",
  summary: "Grant commands on a host for a limited time.",
  takes: GRANT_TAKES,
  help: `
Examples:
  broker-ctl policy grant --host web01 --allow '^systemctl restart nginx$' --ttl 2h
  broker-ctl policy grant --host db01 --allow '^pg_dump ' --allow '^du -sh /var/lib/postgresql$' \\
      --ttl 1h30m --caller broker-1 --end-user ann
  broker-ctl policy grant --cluster prod --action 'delete pods web/shop-1' --ttl 15m

A grant adds allow patterns to a host with an allowlist, for a limited time. It does not override deny rules or required
approvals. Without --caller and --end-user it applies to everyone. In --action, separate values with commas; * matches
all. For a cluster, --allow matches an action as audit records write it: "delete pods web/shop-1".
`,
  question(flags) {
    const { name } = readTarget(flags);
    return {
      method: "POST",
      path: joinPath("v1", "policy", "hosts", name, "grants"),
      body: readGrantOptions(flags),
      schema: grantCreated,
      advice: {
        400: "patterns must be RE2, and the duration at most max_grant_ttl_seconds of the signer's config",
        404: "broker-ctl host list --remote, or broker-ctl cluster list --remote",
        409:
          "grants need a host with an allowlist, and a subject that is not frozen (broker-ctl revocations)",
      },
    };
  },
  show({ id, host, expires_at }, flags) {
    const { allow, ttl_seconds } = readGrantOptions(flags);
    const [patterns, time] = [allow.map(quoteText).join(", "), formatDuration(ttl_seconds * 1000)];
    return [`granted on ${host}: allow ${patterns} for ${time} (id ${id}, expires ${expires_at})`];
  },
  adds(flags) {
    const { name, kind } = readTarget(flags);
    return { name, isCluster: kind === "cluster", list: "allow", patterns: readGrantOptions(flags).allow };
  },
});

const LIST = asking({
  name: "grants",
  summary: "List the active grants and waivers.",
  help: `
Examples:
  broker-ctl policy grants

Waivers come from approvals with --learn. A pattern of more than 400 characters is truncated, and its end shows this.
-o wide and --json print all of it.
`,
  question: () => ({ method: "GET", path: "/v1/policy/grants", schema: grantList }),
  show(grants) {
    const end = ({ expires_at }: GrantInfo) => Date.parse(expires_at);
    const shortId = shortenIds(grants.map(({ id }) => id));
    const rows = grants.toSorted((left, right) => end(left) - end(right)).map((entry) => [
      shortId(entry.id),
      entry.host,
      timeCell(entry.expires_at, systemClock.now()),
      describeScope(entry),
      { text: describeRules(entry, shortenText), wide: describeRules(entry, String) },
    ]);
    const columns = ["ID", "HOST", "EXPIRES", "SCOPE", "RULES"];
    return [{ none: "(no active grants)", columns, rows }];
  },
});

const REVOKE = asking({
  name: "revoke",
  summary: "Revoke a grant or waiver.",
  takes: { "<id>": "grant ID, or a unique prefix of it" },
  help: `
Examples:
  broker-ctl policy revoke 0123456789abcdef01234567

Takes effect immediately. broker-ctl policy grants lists the IDs.
`,
  question: async ({ id }, call) => ({
    method: "DELETE",
    path: joinPath("v1", "policy", "grants", await findGrant(call, id)),
    schema: grantRevoked,
    advice: { 404: "the grant has expired, or see broker-ctl policy grants for its ID" },
  }),
  show: ({ id }) => [`revoked grant ${id}`],
});

async function findGrant(call: Call, id: string): Promise<string> {
  if (!/^[0-9a-f]{4,23}$/.test(id)) return id;
  const { data } = await askSigner(call, { method: "GET", path: "/v1/policy/grants", schema: grantList });
  return findById(id, data.map((grant) => grant.id), "grant", "broker-ctl policy grants");
}

/** `policy grant`, `grants` and `revoke`: additional allow patterns for a limited time. */
export const GRANTS: readonly CommandData[] = [GRANT, LIST, REVOKE];

function readGrantOptions({ ttl = "1h", caller = "", endUser = "", ...flags }: Given<typeof GRANT_TAKES>) {
  const allow = [...flags.allow ?? [], ...(flags.action ?? []).map(actionPattern)];
  if (allow.length === 0) throw invalid("Pass --allow, or --action with --cluster");
  const wish = { allow, ttl_seconds: parseDuration(ttl), caller, end_user: endUser };
  const { data, error } = grantRequest.safeParse(wish);
  if (data !== undefined) return data;
  const { path, message } = error.issues[0] ?? { path: [], message: "invalid" };
  throw invalid(`Cannot grant: ${path.join(".")}: ${message}`);
}

function describeScope({ caller, end_user: endUser, waive_approval: waives }: GrantInfo): string {
  const scope = [
    ...(caller ? [`caller=${caller}`] : []),
    ...(endUser ? [`user=${endUser}`] : []),
    // A waiver without an end user applies only to requests without an end user.
    ...(!endUser && waives !== undefined && waives.length > 0 ? ["user=(none)"] : []),
  ];
  return scope.length === 0 ? "any" : scope.join(",");
}

function describeRules(
  { allow = [], waive_approval: waives = [], sudo, sudo_user: user, content_sha256: content = "" }: GrantInfo,
  show: (pattern: string) => string,
): string {
  return [
    ...(allow.length > 0 ? [`allow[${allow.map(show).join(" | ")}]`] : []),
    ...(waives.length > 0 ? [`waive-approval[${waives.map(show).join(" | ")}]`] : []),
    ...(sudo === true ? [elevationLabel(sudo, user)] : []),
    ...(content === "" ? [] : [`sha256:${content}`]),
  ].join(" ");
}
