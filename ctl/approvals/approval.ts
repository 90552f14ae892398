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
import { findById, HintedError, invalid, type Use } from "../kit/output.ts";
import { parseDuration } from "../kit/values.ts";
import { SIGN, signApproval, type SignFlags } from "./sign.ts";
import { askService, joinPath, remoteHelp } from "../kit/remote.ts";
import { INDENT } from "../kit/table.ts";
import { DEFAULT_LEARN, describeLearnTime, formatApprovals, formatDetails } from "./text.ts";
import { watchApprovals } from "./watch.ts";

const HELP = remoteHelp("control_plane");
const IDS = { "<ids...>": "approval ID, and IDs of identical requests to decide with it" } as const;
const REASON = { "--reason <text>": "comment for the audit log" } as const;
const uses = (): readonly Use[] => ["clientConfig"];
const FIX = "broker-ctl approval list; the control plane soon forgets decided and expired requests";

const LIST = command({
  name: "list",
  summary: "List pending and recently decided requests.",
  takes: {
    "--status <status>": oneOf(APPROVAL_STATUSES, "only requests with this status"),
    "--verbose": "all details, including the manifest and the changes of an apply",
  },
  help: `
Examples:
  broker-ctl approval list
  broker-ctl approval list --status pending

LEFT is the time until the request expires, or what became of it. The control plane forgets a request after twice its
approval.timeout_seconds. Invisible characters are escaped. In a terminal, a long command ends with …; -o wide, --json and
broker-ctl approval show print all of it. Commands accept a unique prefix of an ID, at least four digits.
${HELP}`,
  uses,
  async run({ status, verbose = false }, call) {
    const approvals = (await fetchAll(call))
      .filter(({ record }) => status === undefined || record.status === status);
    const none = `(no ${status ?? "pending"} requests)`;
    const records = approvals.map(({ record }) => record);
    return {
      json: approvals.map(({ json }) => json),
      lines: verbose && records.length > 0
        ? records.flatMap((record, index) => [...(index > 0 ? [""] : []), ...formatDetails(record)])
        : [formatApprovals(records, none, systemClock.now())],
    };
  },
});

const SHOW = command({
  name: "show",
  summary: "Show all details of a request.",
  takes: { "<id>": "approval ID" },
  help: `
Examples:
  broker-ctl approval show 0123456789abcdef0123456789abcdef
${HELP}`,
  uses,
  async run({ id }, call) {
    const all = await fetchAll(call);
    const ids = all.map(({ record }) => [record.id, ...record.joined ?? []]);
    const whole = findById(id, ids.flat(), "approval", FIX);
    const found = all[ids.findIndex((each) => each.includes(whole))];
    return found === undefined ? undefined : { json: found.json, lines: formatDetails(found.record) };
  },
});

const WATCH = command({
  name: "watch",
  summary: "Review and decide pending requests interactively.",
  help: `
Examples:
  broker-ctl approval watch

Shows one pending request at a time. Keys: a approves, d denies and l approves and learns for 1h, each after a
confirmation. s skips the request, v views the next page of a truncated request, ? shows the keys, q quits. To approve a
truncated request, view all of its pages first. A key applies to the request on the screen. A key that is pressed within
0.7 seconds after a request appears is ignored. To give a reason or another time to learn: broker-ctl approval allow.
${HELP}`,
  uses,
  run: (_given, call) =>
    watchApprovals(call, {
      pending: async () =>
        (await fetchAll(call)).map(({ record }) => record).filter(({ status }) => status === "pending"),
      decide: async (shown, choice) =>
        await decide(call, shown, {
          approve: choice !== "d",
          ...(choice === "l" && learningFor(parseDuration(DEFAULT_LEARN))),
        }),
    }),
});

const ALLOW = command({
  name: "allow",
  aliases: ["approve"],
  summary: "Approve a request.",
  takes: {
    ...IDS,
    "--learn": "approve identical requests automatically for the time of --ttl",
    "--ttl <duration>": "with --learn: duration, such as 30m or 1h30m (default: 1h)",
    ...REASON,
    ...SIGN,
  },
  help: `
Examples:
  broker-ctl approval allow 0123456789abcdef0123456789abcdef
  broker-ctl approval allow 0123456789abcdef0123456789abcdef --learn --ttl 2h

Approves each named request once. An identical request that arrives later stays pending. In the output of approval show,
the line "same" lists the identical requests that can be approved together. Requesters cannot decide their own requests.
--learn creates a waiver: the same caller and end user may run the same command on the same host without approval. Its
time starts when the broker collects the approval, and max_grant_ttl_seconds of the signer limits it. broker-ctl policy
grants lists waivers, broker-ctl policy revoke removes one. If no rule requires the approval, for example because the
command is only unusual, there is nothing to learn: approve it without --learn.

If the signer requires signed approvals (approvals in its config), pass --sign-key and --as. The command prints the fields
of the request, computes their digest and signs it with ssh-keygen, with a key in a file, in ssh-agent or on a security key.
The signer rejects a signature of a request that differs from the printed one in any field.
${HELP}`,
  uses: ({ signKey }) => signKey === undefined ? uses() : [...uses(), "programs"],
  async run({ learn = false, ttl, reason, ...given }, call) {
    const ids = await findIds(call, given.ids);
    const ttlSeconds = readLearning(learn, ttl);
    const again = `broker-ctl approval allow ${ids.map(shellQuote).join(" ")}`;
    const learning = ttlSeconds === undefined ? {} : learningFor(ttlSeconds);
    if (given.as !== undefined && given.signKey === undefined) {
      throw invalid("Option '--as' has no effect without --sign-key");
    }
    if (given.signKey !== undefined) {
      return await signAll(call, ids, { ...given, learnTtlSeconds: ttlSeconds ?? 0 }, commentOf(reason));
    }
    const advice = ttlSeconds === undefined
      ? { 400: `to sign it: ${again} --sign-key ~/.ssh/id_ed25519 --as NAME` }
      : { 400: `the request is still pending; to approve it once: ${again}` };
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
          `${INDENT}max_grant_ttl_seconds of the signer limits this time; broker-ctl policy grants shows the expiry`,
        ]),
      ],
    };
  },
});

const DENY = command({
  name: "deny",
  aliases: ["reject"],
  summary: "Deny a request.",
  takes: { ...IDS, ...REASON },
  help: `
Examples:
  broker-ctl approval deny 0123456789abcdef0123456789abcdef
  broker-ctl approval deny 0123456789abcdef0123456789abcdef --reason "not on a Friday"

The commands of the named requests do not run. Their callers receive a denial.
${HELP}`,
  uses,
  async run({ reason, ...given }, call) {
    const ids = await findIds(call, given.ids);
    const { body: json } = await decide(call, ids, { approve: false, ...commentOf(reason) });
    return { json, lines: ids.map((id) => `request ${id} denied`) };
  },
});

/** `approval`: approval requests and their decisions. */
export const APPROVAL: CommandGroup = {
  name: "approval",
  summary: "Review and decide approval requests.",
  commands: [LIST, SHOW, WATCH, ALLOW, DENY],
};

/** The complete IDs. Only prefixes need the list of requests. */
async function findIds(call: Call, given: readonly string[]): Promise<readonly string[]> {
  const wrong = given.find((id) => !/^[0-9a-f]{1,32}$/.test(id));
  if (wrong !== undefined) throw invalid(`Cannot decide ${quoteText(wrong)}: expected an approval ID`);
  if (given.every((id) => id.length === 32)) return [...new Set(given)];
  const known = (await fetchAll(call)).flatMap(({ record }) => [record.id, ...record.joined ?? []]);
  return [...new Set(given.map((id) => id.length === 32 ? id : findById(id, known, "approval", FIX)))];
}

/** Signs and sends the approval of each request. A signature is about one request, so each request is decided alone. */
async function signAll(
  call: Call,
  ids: readonly string[],
  flags: SignFlags & { readonly learnTtlSeconds: number },
  comment: Partial<ApprovalDecision>,
) {
  const all = (await fetchAll(call)).map(({ record }) => record);
  const [json, lines]: [unknown[], string[]] = [[], []];
  for (const id of ids) {
    const record = all.find((each) => each.id === id);
    const signed = record?.signed_approval;
    if (record === undefined || signed === undefined) {
      const problem = `Cannot sign ${quoteText(id)}: the request is unknown, or needs no signature`;
      throw invalid(problem, undefined, "broker-ctl approval list, or omit --sign-key");
    }
    const proof = await signApproval(call, record, signed, flags);
    const { body, data } = await decide(call, [id], { approve: true, proof, ...comment });
    json.push(body);
    const { approved_by, required } = data.signed_approval ?? signed;
    const left = required - approved_by.length;
    lines.push(`request ${id} ${data.status === "approved" ? "approved" : `signed; ${left} more must sign`}`);
  }
  return { json: ids.length === 1 ? json[0] : json, lines };
}

function commentOf(reason = ""): Partial<ApprovalDecision> {
  return reason === "" ? {} : { comment: reason };
}

const learningFor = (seconds: number) => ({ learn: true, ttl_seconds: seconds });

/** The lifetime of the waiver in seconds; undefined without `--learn`. */
function readLearning(learn: boolean, ttl: string | undefined): number | undefined {
  if (!learn && ttl === undefined) return undefined;
  if (!learn) throw invalid("Option '--ttl' has no effect without --learn");
  const seconds = parseDuration(ttl ?? DEFAULT_LEARN);
  if (seconds <= LONGEST_LEARN_TTL_SECONDS) return seconds;
  const [wanted, most] = [seconds, LONGEST_LEARN_TTL_SECONDS].map((each) => formatDuration(each * 1000));
  throw invalid(`Cannot learn for ${wanted}: the maximum is ${most}`);
}

/** Posts a decision on a request and on identical requests. */
async function decide(
  call: Call,
  ids: readonly string[],
  decision: Partial<ApprovalDecision>,
  advice: Readonly<Record<number, string>> = {},
) {
  const [id = "", ...others] = ids;
  const answer = await askService("control_plane", call, {
    method: "POST",
    path: joinPath("v1", "approvals", id),
    body: { ...decision, shown_ids: ids },
    schema: approvalRecord,
    advice: {
      403:
        "the certificate's CN must be in approval.callers, and requesters cannot decide their own requests",
      409: "the request was decided, or is unknown: broker-ctl approval list",
      ...advice,
    },
  });
  const { status, joined = [] } = answer.data;
  const left = others.find((each) => !joined.includes(each));
  const fail = (problem: string) => {
    const error = new AppError("upstream_failure", `${call.name} failed: ${problem}`);
    return new HintedError(error, "broker-ctl approval list");
  };
  if (left !== undefined) throw fail(`the control plane did not confirm the decision on ${quoteText(left)}`);
  const wanted = decision.approve === true ? "approved" : "denied";
  // A signed request stays pending until enough people have signed.
  if (
    answer.data.id === id && (status === wanted || (decision.proof !== undefined && status === "pending"))
  ) {
    return answer;
  }
  throw fail(`the request is ${status}`);
}

async function fetchAll(call: Call) {
  const question = { method: "GET", path: "/v1/approvals", schema: approvalList } as const;
  const { body, data } = await askService("control_plane", call, question);
  const items = z.array(z.record(z.string(), z.unknown())).parse(body);
  return data.map((record, index) => {
    const { decided_at, ...rest } = items[index] ?? {};
    // The control plane writes year 1 for a request that nobody has decided.
    return { json: record.decided_at?.startsWith("0001-") ? rest : { ...rest, decided_at }, record };
  });
}
