import * as z from "@zod/zod";
import { elevationLabel } from "@gateway/shared/policy";
import { formatDuration, quoteText } from "@gateway/shared/text";
import { grantCreated, type GrantInfo, grantList, grantRequest, grantRevoked } from "@gateway/shared/wire";
import { actionPattern } from "../clusters/entry.ts";
import { type CommandData, type Given, repeat, required } from "../kit/command.ts";
import { parseDuration } from "../kit/values.ts";
import { readTarget } from "./explain.ts";
import { asking, joinPath, SIGNER } from "../kit/remote.ts";
import { shortenText, tableOr } from "../kit/table.ts";
import { invalid } from "../kit/output.ts";

const RULE_NOTE = `
The signer rewrites its signer.json, comments and all else kept, and applies it at once; with policy_source
"database" it is a new version of the hosts, in force at all signers. Patterns are RE2 and
match anywhere in a command: anchor them with ^ and $. The first rule makes the host an allowlist; an allowlist
without rules denies everything. Only the host's own policy is changed, not those of its groups.
`;

/** `policy add` and `policy remove`: one allow pattern of one host, for good. */
function ruleCommand(
  name: "add" | "remove",
  { summary, method, done, conflict }: Readonly<Record<"summary" | "done" | "conflict", string>> & {
    readonly method: "POST" | "DELETE";
  },
): CommandData {
  return asking({
    ...{ name, summary },
    takes: {
      ...SIGNER,
      "--host <name>": required("the host"),
      "--allow <pattern>": required("the RE2 pattern"),
    },
    help:
      `\nExamples:\n  broker-ctl policy ${name} --host web01 --allow '^systemctl status nginx$'\n${RULE_NOTE}`,
    question: ({ host, allow }) => ({
      method,
      path: joinPath("v1", "policy", "hosts", host, "allow"),
      body: { pattern: allow },
      schema: z.object({ status: z.string(), host: z.string(), hosts: z.int() }),
      advice: {
        404: "broker-ctl host list --remote shows the hosts",
        409: conflict,
        500: "the signer kept its policy; its log says more",
      },
    }),
    show: ({ hosts }, { host, allow }) => [`allow ${quoteText(allow)} ${done} on ${host} (hosts: ${hosts})`],
  });
}

export const RULES: readonly CommandData[] = [
  ruleCommand("add", {
    summary: "Allow one more pattern on a host, for good.",
    method: "POST",
    done: "added",
    conflict: "the pattern is there already, nothing changed; broker-ctl policy explain shows what holds",
  }),
  ruleCommand("remove", {
    summary: "Take an allow pattern of a host away.",
    method: "DELETE",
    done: "removed",
    conflict: "the host's own policy has no such pattern, letter by letter, nothing changed",
  }),
];

const GRANT_TAKES = {
  ...SIGNER,
  "--host <name>": "the host",
  "--cluster <name>": "the cluster, in the place of a host",
  "--allow <pattern>": repeat("an RE2 pattern; repeat for more"),
  "--action <action>": repeat("<verbs> <resources> <namespaces>/<names> on a cluster; repeat"),
  "--ttl <duration>": "for how long, such as 30m or 1h30m (default: 1h)",
  "--caller <cn>": "for this caller only",
  "--end-user <user>": "for this end user only",
} as const;

const GRANT = asking({
  name: "grant",
  summary: "Allow more on a host for a time.",
  takes: GRANT_TAKES,
  help: `
Examples:
  broker-ctl policy grant --host web01 --allow '^systemctl restart nginx$' --ttl 2h
  broker-ctl policy grant --host db01 --allow '^pg_dump ' --allow '^du -sh /var/lib/postgresql$' \\
      --ttl 1h30m --caller broker-1 --end-user ann
  broker-ctl policy grant --cluster prod --action 'delete pods web/shop-1' --ttl 15m

A grant adds allow patterns to a host that has an allowlist, for a time. It overrides no deny rule and takes no
approval away. Without --caller and --end-user it holds for everybody. An action on a cluster is verbs, resources and
<namespaces>/<names>, several with commas, * for all; --allow takes a pattern of what records say there:
"delete pods web/shop-1".
`,
  question(flags) {
    const { name } = readTarget(flags);
    return {
      method: "POST",
      path: joinPath("v1", "policy", "hosts", name, "grants"),
      body: readWish(flags),
      schema: grantCreated,
      advice: {
        400: "the patterns must be RE2, the duration within max_grant_ttl_seconds of the signer's config",
        404: "broker-ctl host list --remote shows the hosts, broker-ctl cluster list --remote the clusters",
        409: "a grant adds to an allowlist only, and to nobody who is frozen (broker-ctl revocations)",
      },
    };
  },
  show({ id, host, expires_at }, flags) {
    const { allow, ttl_seconds } = readWish(flags);
    const [patterns, time] = [allow.map(quoteText).join(", "), formatDuration(ttl_seconds * 1000)];
    return [`granted on ${host}: allow ${patterns} for ${time} (id ${id}, expires ${expires_at})`];
  },
});

const LIST = asking({
  name: "grants",
  summary: "List the active grants and waivers.",
  takes: { ...SIGNER, "--full": "long patterns whole" },
  help: `
Examples:
  broker-ctl policy grants
  broker-ctl policy grants --json

Grants, and waivers of approval that were learned from an approved command. A pattern of more than 400
characters is cut, which its end says; --full and --json show all of it.
`,
  question: () => ({ method: "GET", path: "/v1/policy/grants", schema: grantList }),
  show(grants, { full = false }, { terminal }) {
    const end = ({ expires_at }: GrantInfo) => Date.parse(expires_at);
    const rows = grants.toSorted((left, right) => end(left) - end(right)).map((entry) => [
      entry.id,
      entry.host,
      entry.expires_at,
      describeScope(entry),
      describeRules(entry, full ? (text) => text : shortenText),
    ]);
    const heading = ["ID", "HOST", "EXPIRES (UTC)", "SCOPE", "RULES"];
    return tableOr("(no active grants)", heading, rows, terminal.columns);
  },
});

const REVOKE = asking({
  name: "revoke",
  summary: "Take a grant or waiver back.",
  takes: { ...SIGNER, "<id>": "which" },
  help: `
Examples:
  broker-ctl policy revoke 0123456789abcdef01234567

The command is denied again at once. broker-ctl policy grants shows the ids.
`,
  question: ({ id }) => ({
    method: "DELETE",
    path: joinPath("v1", "policy", "grants", id),
    schema: grantRevoked,
    advice: { 404: "broker-ctl policy grants shows the ids; one that is not there has ended" },
  }),
  show: ({ id }) => [`revoked grant ${id}`],
});

/** `policy grant`, `grants` and `revoke`: more allow patterns on a host for a time. */
export const GRANTS: readonly CommandData[] = [GRANT, LIST, REVOKE];

function readWish({ ttl = "1h", caller = "", endUser = "", ...flags }: Given<typeof GRANT_TAKES>) {
  const allow = [...flags.allow ?? [], ...(flags.action ?? []).map(actionPattern)];
  if (allow.length === 0) throw invalid("Name what is granted: --allow, or --action of a cluster");
  const wish = { allow, ttl_seconds: parseDuration(ttl), caller, end_user: endUser };
  const { data, error } = grantRequest.safeParse(wish);
  if (data !== undefined) return data;
  const { path, message } = error.issues[0] ?? { path: [], message: "not understood" };
  throw invalid(`Cannot grant: ${path.join(".")}: ${message}`);
}

function describeScope({ caller, end_user: endUser, waive_approval: waives }: GrantInfo): string {
  const scope = [
    ...(caller ? [`caller=${caller}`] : []),
    ...(endUser ? [`user=${endUser}`] : []),
    // A waiver without an end user is not for any end user.
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
