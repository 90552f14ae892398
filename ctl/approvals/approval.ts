import * as z from "@zod/zod";
import { systemClock } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { formatDuration, quoteText, shellQuote } from "@gateway/shared/text";
import {
  APPROVAL_STATUSES,
  type ApprovalDecision,
  approvalList,
  approvalRecord,
  LONGEST_LEARN_TTL_SECONDS,
} from "@gateway/shared/wire";
import { type Call, command, type CommandGroup, oneOf } from "../kit/command.ts";
import { HintedError, invalid, notFound, type Use } from "../kit/output.ts";
import { parseDuration } from "../kit/values.ts";
import { askService, joinPath, remoteHelp, remoteOptions } from "../kit/remote.ts";
import { INDENT } from "../kit/table.ts";
import { describeLearnTime, formatDetails, formatSummary } from "./text.ts";
import { watchApprovals } from "./watch.ts";

const HELP = remoteHelp("control_plane");
const REMOTE = remoteOptions("control_plane");
const IDS = { "<ids...>": "request ID, and those of identical requests to decide with it" } as const;
const REASON = { "--reason <text>": "what you have to say to it, for the audit log" } as const;
const uses = (): readonly Use[] => ["clientConfig"];

const LIST = command({
  name: "list",
  summary: "List what waits for a decision, and what was decided recently.",
  takes: {
    ...REMOTE,
    "--status <status>": oneOf(APPROVAL_STATUSES, "only those of this status"),
    "--verbose": "all of each: the manifest of an apply and what it would change, too",
  },
  help: `
Examples:
  broker-ctl approval list
  broker-ctl approval list --status pending
  broker-ctl approval list --json

Lists pending requests, and requests that were decided or expired recently: the control plane forgets a request after
twice its approval.timeout_seconds. age= is the time since the request. left= is the time until it expires. Read the whole command before you allow it: it is shown quoted, every character
that could hide another made visible. One of more than 400 characters is cut, which the line below it says:
broker-ctl approval show has all of it, and so has --json.
${HELP}`,
  uses,
  async run({ status, verbose = false }, call) {
    const approvals = (await fetchAll(call))
      .filter(({ record }) => status === undefined || record.status === status);
    const lines = approvals.flatMap(({ record }, index) =>
      verbose
        ? [...(index > 0 ? [""] : []), ...formatDetails(record)]
        : formatSummary(record, systemClock.now())
    );
    return {
      json: approvals.map(({ json }) => json),
      lines: lines.length === 0 ? [`(no ${status ?? "pending"} requests)`] : lines,
    };
  },
});

const SHOW = command({
  name: "show",
  summary: "Show all of one request.",
  takes: { ...REMOTE, "<id>": "which" },
  help: `
Examples:
  broker-ctl approval show 0123456789abcdef0123456789abcdef
  broker-ctl approval show 0123456789abcdef0123456789abcdef --json
${HELP}`,
  uses,
  async run({ id }, call) {
    const found = (await fetchAll(call)).find(({ record }) =>
      record.id === id || record.joined?.includes(id) === true
    );
    if (found !== undefined) return { json: found.json, lines: formatDetails(found.record) };
    const message = `Cannot show request ${quoteText(id)}: the control plane knows no request with that id`;
    throw new HintedError(
      notFound(message),
      "broker-ctl approval list shows all that exist; decided and expired ones are forgotten after a while",
    );
  },
});

const WATCH = command({
  name: "watch",
  summary: "See and decide requests as they come, at a terminal.",
  takes: REMOTE,
  help: `
Examples:
  broker-ctl approval watch

Shows each request that waits, all of it, one after another: a allows and d denies it, after a second key, s leaves it
for later, q quits. A key is about the request that was shown last, never about one that comes while you read; one that
comes too soon after it was shown counts for nothing. To learn, or to give a reason: broker-ctl approval allow.
${HELP}`,
  uses: () => [],
  run: (_given, call) =>
    watchApprovals(call, {
      pending: async () =>
        (await fetchAll(call)).map(({ record }) => record).filter(({ status }) => status === "pending"),
      async decide(shown, approve) {
        const { data } = await decide(call, shown, { approve });
        return `request ${shown[0]} ${data.status}`;
      },
    }),
});

const ALLOW = command({
  name: "allow",
  aliases: ["approve"],
  summary: "Let the command of a request run.",
  takes: {
    ...REMOTE,
    ...IDS,
    "--learn": "need no approval for the same again, for a time",
    "--ttl <duration>": "for how long, such as 30m or 1h30m; with --learn (default: 1h)",
    ...REASON,
  },
  help: `
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
${HELP}`,
  uses,
  async run({ learn = false, ttl, reason, ...given }, call) {
    const ids = [...new Set(given.ids)];
    const ttlSeconds = readLearning(learn, ttl);
    const again = `broker-ctl approval allow ${ids.map(shellQuote).join(" ")}`;
    const learning = ttlSeconds === undefined ? {} : { learn: true, ttl_seconds: ttlSeconds };
    const advice = ttlSeconds === undefined
      ? {}
      : { 400: `it still waits; to approve it this once: ${again}` };
    const { body: json } = await decide(
      call,
      ids,
      { approve: true, ...learning, ...commentOf(reason) },
      advice,
    );
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
  },
});

const DENY = command({
  name: "deny",
  aliases: ["reject"],
  summary: "Refuse a request.",
  takes: { ...REMOTE, ...IDS, ...REASON },
  help: `
Examples:
  broker-ctl approval deny 0123456789abcdef0123456789abcdef
  broker-ctl approval deny 0123456789abcdef0123456789abcdef --reason "not on a Friday"

The commands of the named requests do not run; their callers are told that they were denied.
${HELP}`,
  uses,
  async run({ reason, ...given }, call) {
    const ids = [...new Set(given.ids)];
    const { body: json } = await decide(call, ids, { approve: false, ...commentOf(reason) });
    return { json, lines: ids.map((id) => `request ${id} denied`) };
  },
});

/** `approval`: the requests that wait for a second human, and the decisions. */
export const APPROVAL: CommandGroup = {
  name: "approval",
  summary: "See and decide what waits for a second human.",
  commands: [LIST, SHOW, WATCH, ALLOW, DENY],
};

function commentOf(reason = ""): Partial<ApprovalDecision> {
  return reason === "" ? {} : { comment: reason };
}

/** The time to learn for, in seconds; undefined: nothing is learned. */
function readLearning(learn: boolean, ttl: string | undefined): number | undefined {
  if (!learn && ttl === undefined) return undefined;
  if (!learn) throw invalid("Option '--ttl' means nothing to 'allow' without --learn");
  const seconds = parseDuration(ttl ?? "1h");
  if (seconds <= LONGEST_LEARN_TTL_SECONDS) return seconds;
  const [wanted, most] = [seconds, LONGEST_LEARN_TTL_SECONDS].map((each) => formatDuration(each * 1000));
  throw invalid(`Cannot learn for ${wanted}: at most ${most}`);
}

/** Posts a decision on a request, and on identical requests with it. */
async function decide(
  call: Call,
  ids: readonly string[],
  decision: Partial<ApprovalDecision>,
  advice: Readonly<Record<number, string>> = {},
) {
  const [id = "", ...others] = ids;
  const misplaced = others.find((each) => !/^[0-9a-f]{32}$/.test(each));
  if (misplaced !== undefined) throw invalid(`Cannot decide ${quoteText(misplaced)}: it is not a request ID`);
  const answer = await askService("control_plane", call, {
    method: "POST",
    path: joinPath("v1", "approvals", id),
    body: { ...decision, shown_ids: ids },
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
    const message = `${call.name} failed: the control plane does not confirm the decision on ${
      quoteText(left)
    }`;
    throw new HintedError(
      new AppError("upstream_failure", message),
      "broker-ctl approval list shows what is pending",
    );
  }
  if (answer.data.id === id && status === (decision.approve === true ? "approved" : "denied")) return answer;
  throw new AppError(
    "upstream_failure",
    `${call.name} failed: the control plane says that it is ${status} now`,
  );
}

async function fetchAll(call: Call) {
  const question = { method: "GET", path: "/v1/approvals", schema: approvalList } as const;
  const { body, data } = await askService("control_plane", call, question);
  const items = z.array(z.unknown()).parse(body);
  return data.map((record, index) => ({ json: items[index], record }));
}
