import { formatDuration, quoteText } from "@gateway/shared/text";
import { elevationLabel } from "@gateway/shared/policy";
import type { Command } from "commander";
import { AppError } from "@gateway/shared/errors";
import {
  grantCreated,
  type GrantInfo,
  grantList,
  type GrantRequest,
  grantRequest,
  grantRevoked,
} from "@gateway/shared/wire";
import { once, repeated } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { actionPattern } from "../clusters/action_pattern.ts";
import { parseDuration } from "../kit/duration.ts";
import type { CommandResult } from "../kit/output.ts";
import { addRemoteOptions, askSigner, joinPath, REMOTE_HELP } from "../kit/remote.ts";
import { formatTable, shortenText } from "../kit/table.ts";

interface ListFlags {
  readonly full?: boolean;
}

interface GrantFlags {
  readonly host?: string;
  readonly cluster?: string;
  readonly allow?: readonly string[];
  readonly action?: readonly string[];
  readonly ttl: string;
  readonly caller?: string;
  readonly endUser?: string;
}

const GRANT_EXAMPLES = `
Examples:
  broker-ctl policy grant --host web01 --allow '^systemctl restart nginx$' --ttl 2h
  broker-ctl policy grant --host db01 --allow '^pg_dump ' --allow '^du -sh /var/lib/postgresql$' \\
      --ttl 1h30m --caller broker-1 --end-user ann
  broker-ctl policy grant --cluster prod --action 'delete pods web/shop-1' --ttl 15m

A grant adds allow patterns to a host that has an allowlist, for a time. It overrides no deny rule and takes no
approval away. Without --caller and --end-user it holds for everybody. An action on a cluster is verbs, resources and
<namespaces>/<names>, several with commas, * for all; --allow takes a pattern of what records say there:
"delete pods web/shop-1".
${REMOTE_HELP}`;

const LIST_EXAMPLES = `
Examples:
  broker-ctl policy grants
  broker-ctl policy grants --json

Grants, and waivers of approval that were learned from an approved command. A pattern of more than 400
characters is cut, which its end says; --full and --json show all of it.
${REMOTE_HELP}`;

const REVOKE_EXAMPLES = `
Examples:
  broker-ctl policy revoke 0123456789abcdef01234567

The command is denied again at once. broker-ctl policy grants shows the ids.
${REMOTE_HELP}`;

/** `policy grant`, `policy grants` and `policy revoke`: more allow patterns on a host for a time. */
export const addGrants: AddCommand = (policy, context) => {
  addRemoteOptions(policy.command("grant"))
    .description("Allow more on a host for a time.")
    .option("--host <name>", "the host", once)
    .option("--cluster <name>", "the cluster, in the place of a host", once)
    .option("--allow <pattern>", "an RE2 pattern; repeat for more", repeated)
    .option("--action <action>", "<verbs> <resources> <namespaces>/<names> on a cluster; repeat", repeated)
    .option("--ttl <duration>", "for how long, such as 30m or 1h30m (default: 1h)", once)
    .option("--caller <cn>", "for this caller only", once)
    .option("--end-user <user>", "for this end user only", once)
    .addHelpText("after", GRANT_EXAMPLES)
    .action((flags: GrantFlags, command) => run(command, context, () => grant(command, context, flags)));
  addRemoteOptions(policy.command("grants"))
    .description("List the active grants and waivers.")
    .option("--full", "long patterns whole")
    .addHelpText("after", LIST_EXAMPLES)
    .action((flags: ListFlags, command) => run(command, context, () => list(command, context, flags)));
  addRemoteOptions(policy.command("revoke"))
    .description("Take a grant or waiver back.")
    .argument("<id>", "which")
    .addHelpText("after", REVOKE_EXAMPLES)
    .action((id: string, _flags, command) => run(command, context, () => revoke(command, context, id)));
};

function run(command: Command, context: CommandContext, action: () => Promise<CommandResult>): Promise<void> {
  return context.run(command, ["config", "clientConfig"], action);
}

async function grant(command: Command, context: CommandContext, flags: GrantFlags): Promise<CommandResult> {
  const target = readTarget(flags);
  const wish = readWish(flags);
  const { body, data } = await askSigner(command, context, {
    what: "policy grant",
    method: "POST",
    path: joinPath("v1", "policy", "hosts", target, "grants"),
    body: wish,
    schema: grantCreated,
    advice: {
      400: "the patterns must be RE2, the duration within max_grant_ttl_seconds of the signer's config",
      404: "broker-ctl host list --remote shows the hosts, broker-ctl cluster list --remote the clusters",
      409: "a grant adds to an allowlist only, and to nobody who is frozen (broker-ctl revocations)",
    },
  });
  const patterns = wish.allow.map(quoteText).join(", ");
  const details = `id ${data.id}, expires ${data.expires_at}`;
  return {
    json: body,
    lines: [
      `granted on ${data.host}: allow ${patterns} for ${
        formatDuration(wish.ttl_seconds * 1000)
      } (${details})`,
    ],
  };
}

/** @throws {AppError} `invalid_request` for none or both, and for an action on a host */
function readTarget({ host, cluster, action }: GrantFlags): string {
  if (host !== undefined && cluster === undefined) {
    if (action !== undefined) {
      throw new AppError("invalid_request", "Option '--action' means nothing to a host");
    }
    return host;
  }
  if (host === undefined && cluster !== undefined) return cluster;
  throw new AppError("invalid_request", "Name one target: --host or --cluster");
}

/** @throws {AppError} `invalid_request` for what no signer would take */
function readWish(flags: GrantFlags): GrantRequest {
  const { ttl = "1h", caller = "", endUser = "" } = flags;
  const allow = [...flags.allow ?? [], ...(flags.action ?? []).map(actionPattern)];
  if (allow.length === 0) {
    throw new AppError("invalid_request", "Name what is granted: --allow, or --action of a cluster");
  }
  const wish = { allow, ttl_seconds: parseDuration(ttl), caller, end_user: endUser };
  const { data, error } = grantRequest.safeParse(wish);
  if (data !== undefined) return data;
  const { path, message } = error.issues[0] ?? { path: [], message: "not understood" };
  throw new AppError("invalid_request", `Cannot grant: ${path.join(".")}: ${message}`);
}

async function list(
  command: Command,
  context: CommandContext,
  { full = false }: ListFlags,
): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: "policy grants",
    method: "GET",
    path: "/v1/policy/grants",
    schema: grantList,
  });
  const rows = data.toSorted(byEnd).map((entry) => [
    entry.id,
    entry.host,
    entry.expires_at,
    describeScope(entry),
    describeRules(entry, full ? (text) => text : shortenText),
  ]);
  const heading = ["ID", "HOST", "EXPIRES (UTC)", "SCOPE", "RULES"];
  return {
    json: body,
    lines: rows.length === 0 ? ["(no active grants)"] : formatTable(heading, rows, context.terminal.columns),
  };
}

function byEnd(left: GrantInfo, right: GrantInfo): number {
  return Date.parse(left.expires_at) - Date.parse(right.expires_at);
}

function describeScope({ caller, end_user: endUser, waive_approval: waives }: GrantInfo): string {
  const scope = [
    ...(caller ? [`caller=${caller}`] : []),
    ...(endUser ? [`user=${endUser}`] : []),
    // Of a waiver, no end user is not any end user.
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

async function revoke(command: Command, context: CommandContext, id: string): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: "policy revoke",
    method: "DELETE",
    path: joinPath("v1", "policy", "grants", id),
    schema: grantRevoked,
    advice: { 404: "broker-ctl policy grants shows the ids; one that is not there has ended" },
  });
  return { json: body, lines: [`revoked grant ${data.id}`] };
}
