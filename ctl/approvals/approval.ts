import { systemClock } from "@gateway/shared/clock";
import { formatDuration, quoteText, shellQuote } from "@gateway/shared/text";
import { type Command, Option } from "commander";
import * as z from "@zod/zod";
import { AppError } from "@gateway/shared/errors";
import {
  APPROVAL_STATUSES,
  type ApprovalDecision,
  approvalList,
  type ApprovalRecord,
  approvalRecord,
  type ApprovalStatus,
  LONGEST_LEARN_TTL_SECONDS,
} from "@gateway/shared/wire";
import { describeLearnTime, formatDetails, formatSummary } from "./text.ts";
import { once } from "../kit/arguments.ts";
import { WATCH_EXAMPLES, watchApprovals, type Watched } from "./watch.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { parseDuration } from "../kit/duration.ts";
import { type CommandResult, HintedError } from "../kit/output.ts";
import { addRemoteOptions, askControlPlane, joinPath, remoteHelp } from "../kit/remote.ts";
import { INDENT } from "../kit/table.ts";

interface DenyFlags {
  readonly reason?: string;
}

interface AllowFlags extends DenyFlags {
  readonly learn?: boolean;
  readonly ttl?: string;
}

const HELP = remoteHelp("control_plane");
const IDS = "request ID, and those of identical requests to decide with it";

const LIST_EXAMPLES = `
Examples:
  broker-ctl approval list
  broker-ctl approval list --status pending
  broker-ctl approval list --json

Lists pending requests, and requests that were decided or expired recently: the control plane forgets a request after
twice its approval.timeout_seconds. age= is the time since the request. left= is the time until it expires. Read the whole command before you allow it: it is shown quoted, every character
that could hide another made visible. One of more than 400 characters is cut, which the line below it says:
broker-ctl approval show has all of it, and so has --json.
${HELP}`;

const SHOW_EXAMPLES = `
Examples:
  broker-ctl approval show 0123456789abcdef0123456789abcdef
  broker-ctl approval show 0123456789abcdef0123456789abcdef --json
${HELP}`;

const ALLOW_EXAMPLES = `
Examples:
  broker-ctl approval allow 0123456789abcdef0123456789abcdef
  broker-ctl approval allow 0123456789abcdef0123456789abcdef --learn --ttl 2h

It allows each request that is named, once, and no other: an identical request that came later stays pending. In
approval show, the line "same" lists the identical requests that can be named together.
With --learn the same caller and end user may run the same command on the
same host again for that time without asking. The time begins when the broker collects the approval: only then
the signer learns it, and for no longer than its max_grant_ttl_seconds. broker-ctl policy grants shows such
waivers, and broker-ctl policy revoke takes one back. Where no rule wants the approval (the command is unusual, or
only asked about) there is nothing to learn: allow it without --learn. Nobody can allow or deny what it asked
for itself.
${HELP}`;

const DENY_EXAMPLES = `
Examples:
  broker-ctl approval deny 0123456789abcdef0123456789abcdef
  broker-ctl approval deny 0123456789abcdef0123456789abcdef --reason "not on a Friday"

The commands of the named requests do not run; their callers are told that they were denied.
${HELP}`;

/** `approval list`, `show`, `allow` and `deny`: what waits for a second human, and the decision. */
export const addApproval: AddCommand = (program, context) => {
  const approval = program.command("approval").description("See and decide what waits for a second human.");
  add(approval, "list")
    .description("List what waits for a decision, and what was decided recently.")
    .addOption(new Option("--status <status>", "only those of this status").choices(APPROVAL_STATUSES))
    .option("--verbose", "all of each: the manifest of an apply and what it would change, too")
    .addHelpText("after", LIST_EXAMPLES)
    .action((flags: ListFlags, command) => run(command, context, () => list(command, context, flags)));
  add(approval, "show")
    .description("Show all of one request.")
    .argument("<id>", "which")
    .addHelpText("after", SHOW_EXAMPLES)
    .action((id: string, _flags, command) => run(command, context, () => show(command, context, id)));
  add(approval, "watch")
    .description("See and decide requests as they come, at a terminal.")
    .addHelpText("after", `${WATCH_EXAMPLES}${HELP}`)
    .action((_flags, command) => context.stream(() => watchApprovals(context, watched(command, context))));
  add(approval, "allow")
    .alias("approve")
    .description("Let the command of a request run.")
    .argument("<ids...>", IDS)
    .option("--learn", "need no approval for the same again, for a time")
    .option("--ttl <duration>", "for how long, such as 30m or 1h30m; with --learn (default: 1h)", once)
    .option("--reason <text>", "what you have to say to it, for the audit log", once)
    .addHelpText("after", ALLOW_EXAMPLES)
    .action((ids: string[], flags: AllowFlags, command) =>
      run(command, context, () => allow(command, context, { ids: [...new Set(ids)], ...flags }))
    );
  add(approval, "deny")
    .alias("reject")
    .description("Refuse a request.")
    .argument("<ids...>", IDS)
    .option("--reason <text>", "what you have to say to it, for the audit log", once)
    .addHelpText("after", DENY_EXAMPLES)
    .action((ids: string[], flags: DenyFlags, command) =>
      run(command, context, () => deny(command, context, { ids: [...new Set(ids)], ...flags }))
    );
};

function watched(command: Command, context: CommandContext): Watched {
  return {
    async pending() {
      const all = await fetchAll(command, context, "approval watch");
      return all.map(({ record }) => record).filter(({ status }) => status === "pending");
    },
    async decide(shown, approve) {
      const expected = approve ? "approved" : "denied";
      await decide(command, context, { ids: shown, what: "approval watch", body: { approve }, expected });
      return `request ${shown[0]} ${expected}`;
    },
  };
}

interface ListFlags {
  readonly status?: ApprovalStatus;
  readonly verbose?: boolean;
}

function add(family: Command, name: string): Command {
  return addRemoteOptions(family.command(name), "control_plane");
}

function run(command: Command, context: CommandContext, action: () => Promise<CommandResult>): Promise<void> {
  return context.run(command, ["clientConfig"], action);
}

async function list(
  command: Command,
  context: CommandContext,
  { status, verbose = false }: ListFlags,
): Promise<CommandResult> {
  const approvals = (await fetchAll(command, context, "approval list"))
    .filter(({ record }) => status === undefined || record.status === status);
  const nothing = `(no ${status ?? "pending"} requests)`;
  return {
    json: approvals.map(({ json }) => json),
    lines: approvals.length === 0
      ? [nothing]
      : approvals.flatMap(({ record }, index) =>
        verbose
          ? [...(index > 0 ? [""] : []), ...formatDetails(record)]
          : formatSummary(record, systemClock.now())
      ),
  };
}

async function show(command: Command, context: CommandContext, id: string): Promise<CommandResult> {
  const found = (await fetchAll(command, context, "approval show")).find(({ record }) =>
    record.id === id || record.joined?.includes(id) === true
  );
  if (found !== undefined) return { json: found.json, lines: formatDetails(found.record) };
  throw new HintedError(
    new AppError(
      "not_found",
      `Cannot show request ${quoteText(id)}: the control plane knows no request with that id`,
    ),
    "broker-ctl approval list shows all that exist; decided and expired ones are forgotten after a while",
  );
}

async function allow(
  command: Command,
  context: CommandContext,
  wish: AllowFlags & { readonly ids: readonly string[] },
): Promise<CommandResult> {
  const { ids } = wish;
  const ttlSeconds = readLearning(wish);
  const learning = ttlSeconds === undefined ? {} : { learn: true, ttl_seconds: ttlSeconds };
  const json = await decide(command, context, {
    ids,
    what: "approval allow",
    body: { approve: true, ...learning, ...commentOf(wish.reason) },
    expected: "approved",
    ...(ttlSeconds !== undefined && {
      advice: {
        400: `it still waits; to approve it this once: broker-ctl approval allow ${
          ids.map(shellQuote).join(" ")
        }`,
      },
    }),
  });
  return {
    json,
    lines: [
      ...ids.map((id) => `request ${id} approved`),
      ...(ttlSeconds === undefined ? [] : [
        `learning: ${describeLearnTime(ttlSeconds)}`,
        `${INDENT}max_grant_ttl_seconds of the signer may make it less; broker-ctl policy grants shows until when`,
      ]),
    ],
  };
}

async function deny(
  command: Command,
  context: CommandContext,
  { ids, reason = "" }: DenyFlags & { readonly ids: readonly string[] },
): Promise<CommandResult> {
  const json = await decide(command, context, {
    ids,
    what: "approval deny",
    body: { approve: false, ...commentOf(reason) },
    expected: "denied",
  });
  return { json, lines: ids.map((id) => `request ${id} denied`) };
}

function commentOf(reason = ""): Partial<ApprovalDecision> {
  return reason === "" ? {} : { comment: reason };
}

/**
 * For how long to learn, in seconds; undefined for not at all.
 *
 * @throws {AppError} `invalid_request` for a time without --learn, and for one that is invalid or too long
 */
function readLearning({ learn = false, ttl }: AllowFlags): number | undefined {
  if (!learn) {
    if (ttl === undefined) return undefined;
    throw new AppError("invalid_request", "Option '--ttl' means nothing to 'allow' without --learn");
  }
  const seconds = parseDuration(ttl ?? "1h");
  if (seconds <= LONGEST_LEARN_TTL_SECONDS) return seconds;
  throw new AppError(
    "invalid_request",
    `Cannot learn for ${formatDuration(seconds * 1000)}: at most ${
      formatDuration(LONGEST_LEARN_TTL_SECONDS * 1000)
    }`,
  );
}

interface Wish {
  /** The request, and the identical requests that are decided with it. */
  readonly ids: readonly string[];
  readonly what: string;
  readonly body: Partial<ApprovalDecision>;
  readonly expected: ApprovalStatus;
  readonly advice?: Readonly<Record<number, string>>;
}

/** Posts a decision; says nothing of one that the control plane does not confirm. */
async function decide(command: Command, context: CommandContext, wish: Wish): Promise<unknown> {
  const { ids, ids: [id = "", ...others], what, body, expected, advice } = wish;
  const misplaced = others.find((each) => !/^[0-9a-f]{32}$/.test(each));
  if (misplaced !== undefined) {
    throw new AppError("invalid_request", `Cannot decide ${quoteText(misplaced)}: it is not a request ID`);
  }
  const answer = await askControlPlane(command, context, {
    what,
    method: "POST",
    path: joinPath("v1", "approvals", id),
    body: { ...body, shown_ids: ids },
    schema: approvalRecord,
    advice: {
      403: "the certificate's CN must be in approval.callers, and differ from the one that asked",
      409: "broker-ctl approval list shows what is pending",
      ...advice,
    },
  });
  const { status, joined = [] } = answer.data;
  const left = others.find((each) => !joined.includes(each));
  if (left !== undefined) {
    const message = `${what} failed: the control plane does not confirm the decision on ${quoteText(left)}`;
    throw new HintedError(
      new AppError("upstream_failure", message),
      "broker-ctl approval list shows what is pending",
    );
  }
  if (answer.data.id === id && status === expected) return answer.body;
  throw new AppError("upstream_failure", `${what} failed: the control plane says that it is ${status} now`);
}

async function fetchAll(
  command: Command,
  context: CommandContext,
  what: string,
): Promise<readonly { readonly json: unknown; readonly record: ApprovalRecord }[]> {
  const { body, data } = await askControlPlane(command, context, {
    what,
    method: "GET",
    path: "/v1/approvals",
    schema: approvalList,
  });
  const items = z.array(z.unknown()).parse(body);
  return data.map((record, index) => ({ json: items[index], record }));
}
