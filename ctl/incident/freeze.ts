import * as z from "@zod/zod";
import { systemClock } from "@gateway/shared/clock";
import { quoteText } from "@gateway/shared/text";
import {
  FREEZE_KINDS,
  freezeRequest,
  freezeResponse,
  type FreezeSubject,
  type KrlReader,
  type KrlStatus,
  krlStatus,
  type RevocationEntry,
  revocationList,
  revokeKeyIdsRequest,
  revokeResponse,
  revokeSerialsRequest,
  unfreezeRequest,
  unfreezeResponse,
} from "@gateway/shared/wire";
import { asOneWord } from "../kit/arguments.ts";
import { type Call, command, type CommandData, type Given } from "../kit/command.ts";
import { parseSerial } from "../kit/values.ts";
import { type CommandResult, invalid } from "../kit/output.ts";
import { asking, askSigner, REMOTE_HELP, usesSigner } from "../kit/remote.ts";
import { ageCell, EMPTY_CELL } from "../kit/table.ts";

const SUBJECT = {
  "--caller <cn>": "caller: the CN of a broker",
  "--end-user <user>": "end user: an agent's CN, or a person",
  "--session-id <id>": "session ID",
  "--serial <number>": "serial of a certificate",
} as const;
const REASON = { "--reason <text>": "reason, such as a ticket number; spaces become _" } as const;
const VOLATILE = { "--volatile": "without state_db: freeze until the signer restarts" } as const;
/** The options of a freeze of any subject. */
export const FREEZE_OPTIONS = { ...REASON, ...VOLATILE } as const;
const WAIT = { "--wait": "wait until hosts enforce it, and list them" } as const;

const ADD = command({
  name: "add",
  summary: "Freeze a caller, end user, session or certificate.",
  takes: { ...SUBJECT, ...FREEZE_OPTIONS, ...WAIT },
  help: `
Examples:
  broker-ctl freeze add --end-user agent-7 --reason INC-42   # an agent or a person
  broker-ctl freeze add --caller broker-2                    # a broker, and everyone who uses it
  broker-ctl freeze add --end-user ann@example.com --wait
  broker-ctl freeze add --serial 9223372036854775808 --volatile

A frozen caller or end user receives no certificates and sees no hosts. Its grants are revoked, and brokers close its
sessions at their next poll. Freezing a session or a serial only closes that session or connection. The signer's audit
log names the caller and the end user (user=) of each request. Hosts that fetch the signer's revocation list
(krl_callers) also reject certificates that were issued before the freeze; they stay revoked after an unfreeze. --wait
waits up to 30 s until every host has the list. It prints the hosts that lack it and the signers that did not confirm
the freeze (exit code 1). Without state_db, a freeze ends when the signer restarts: confirm this with --volatile. If
state_db cannot store a freeze, the freeze is in force until a restart, the output shows this, and the exit code is 1.
${REMOTE_HELP}`,
  uses: usesSigner,
  run: (flags, call) => freeze(call, readSubject(flags), flags),
});

const REMOVE = asking({
  name: "remove",
  summary: "Lift a freeze.",
  takes: SUBJECT,
  help: `
Examples:
  broker-ctl freeze remove --end-user agent-7

Certificates and grants that the freeze revoked stay revoked.
`,
  question: (flags) => ({
    method: "POST",
    path: "/v1/unfreeze",
    body: readSubject(flags),
    schema: unfreezeResponse,
  }),
  show(data, flags) {
    const subject = describe(readSubject(flags));
    return [data.was_frozen ? `unfrozen ${subject}` : `${subject} was not frozen`];
  },
});

const LIST = asking({
  name: "list",
  summary: "List active freezes.",
  help: `
Examples:
  broker-ctl freeze list

Only callers in reload_callers see who froze a subject, and why.
`,
  question: () => ({
    ...{ method: "GET", path: "/v1/revocations", schema: revocationList } as const,
    advice: { 403: "the certificate's caller is frozen, or unknown to the signer" },
  }),
  show(entries) {
    const now = systemClock.now();
    const rows = entries.toSorted(bySubject).map((entry) => [
      entry.kind,
      { text: entry.value, role: "name" as const },
      ageCell(entry.frozen_at, now),
      entry.frozen_by || EMPTY_CELL,
      entry.reason || EMPTY_CELL,
    ]);
    const columns = ["KIND", "VALUE", "AGE", "BY", "REASON"];
    return [{ none: "(no frozen subjects)", columns, rows }];
  },
});

/** `freeze` alone does the same as `freeze add`. */
export const FREEZE: CommandData = {
  ...ADD,
  name: "freeze",
  summary: "Freeze a subject; list and lift freezes.",
  help: ADD.help ?? "",
  commands: [LIST, ADD, REMOVE],
};

/** An earlier name of a command of `freeze`. */
const formerly = (name: string, entry: CommandData): CommandData => ({
  ...entry,
  name,
  isHidden: true,
  help: entry.help?.replace(`freeze ${entry.name}`, name) ?? "",
});

export const UNFREEZE = formerly("unfreeze", REMOVE);
export const REVOCATIONS = formerly("revocations", LIST);

/** `revoke`: hosts reject one certificate. */
export const REVOKE = command({
  name: "revoke",
  summary: "Revoke a certificate by serial or key ID.",
  takes: {
    "--serial <number>": "serial of a certificate",
    "--key-id <text>": "key ID of certificates, as sshd logs it",
    ...REASON,
    ...WAIT,
  },
  help: `
Examples:
  broker-ctl revoke --serial 9223372036854775808 --reason INC-42 --wait
  broker-ctl revoke --key-id "agent=agent-7 host=web01 role=target t=1700000000"

Hosts that fetch the signer's revocation list (krl_callers) then reject the certificate, even if the signer does not
know it. A revocation cannot be undone. A key ID can name several certificates: those that a caller received for one
host in the same second share it. To stop the holder of the certificate, freeze the caller too. --wait waits up to 30 s
until every host has the list, and prints the hosts that lack it (exit code 1).
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ serial, keyId, reason = "", wait = false }, call) {
    const { path, body: request, subject } = readRequest(serial, keyId, asOneWord(reason));
    const question = { method: "POST", path, body: request, schema: revokeResponse } as const;
    const { body, data } = await askSigner(call, question);
    const failed = data.persisted === false;
    const known = data.revoked === 0
      ? "this signer knows no further valid certificate"
      : `certificates revoked: ${data.revoked}`;
    const result = {
      json: body,
      lines: [
        `added ${subject} to revocation list ${data.krl_version}; ${known}`,
        ...(failed ? ["not stored: in force until the signer restarts"] : []),
      ],
      failed,
    };
    return wait ? await waitForHosts(call, result, data.krl_version) : result;
  },
});

const NOT_PERSISTED =
  "not stored: in force until the signer restarts; fix state_db (see the signer's log), then freeze again";

/** Freezes a subject, and waits for the hosts with `wait`. */
export async function freeze(
  call: Call,
  subject: FreezeSubject,
  { reason = "", volatile = false, wait = false }: Given<typeof FREEZE_OPTIONS & typeof WAIT>,
): Promise<CommandResult> {
  if (wait && subject.kind === "session_id") {
    throw invalid("Cannot use --wait with a session: freeze its --serial or --caller instead");
  }
  const wish = { ...subject, reason: asOneWord(reason), allow_volatile: volatile };
  const { data: request } = freezeRequest.safeParse(wish);
  if (request === undefined) throw invalid("Cannot freeze: --reason must have no control characters");
  const { body, data } = await askSigner(call, {
    ...{ method: "POST", path: "/v1/freeze", body: request, schema: freezeResponse } as const,
    advice: { 409: "pass --volatile to freeze until the signer restarts, or set state_db in its config" },
  });
  const done = data.newly_frozen ? "frozen" : "already frozen (refreshed)";
  const silent = (data.silent_signers ?? []).map((name) =>
    `not confirmed by signer ${name}: certificates of its last 2 s are revoked when it is reachable again`
  );
  const ends = subject.kind === "session_id" ? "; its broker ends the session at the next poll" : "";
  const { certificates_revoked: certificates, tokens_revoked: tokens } = data;
  const counts = [
    `grants revoked: ${data.grants_revoked}`,
    ...certificates === undefined ? [] : [`certificates revoked: ${certificates}`],
    ...tokens === undefined ? [] : [`Kubernetes tokens revoked: ${tokens}`],
  ];
  const result = {
    json: body,
    lines: [
      `${done} ${describe(subject)} (${counts.join(", ")})${ends}`,
      ...(data.persisted === false ? [NOT_PERSISTED] : []),
      ...silent,
      ...(data.warning === undefined ? [] : [`warning: ${data.warning}`]),
    ],
    failed: data.persisted === false || (wait && silent.length > 0),
  };
  return wait ? await waitForHosts(call, result, data.krl_version) : result;
}

/** The subject of the options, of which one must be present. */
export function readSubject({ caller, endUser, sessionId, serial }: Given<typeof SUBJECT>): FreezeSubject {
  const values = { caller, end_user: endUser, session_id: sessionId, serial };
  const [kind, ...others] = FREEZE_KINDS.filter((kind) => values[kind] !== undefined);
  if (kind === undefined || others.length > 0) {
    throw invalid("Pass exactly one of --caller, --end-user, --session-id and --serial");
  }
  const value = values[kind] ?? "";
  if (kind === "serial") return { kind, value: parseSerial(value).toString() };
  if (unfreezeRequest.safeParse({ kind, value }).success) return { kind, value };
  throw invalid(`Cannot use ${kind} ${quoteText(value)}: it must not be empty or contain spaces`);
}

function bySubject(left: RevocationEntry, right: RevocationEntry): number {
  const byKind = FREEZE_KINDS.indexOf(left.kind) - FREEZE_KINDS.indexOf(right.kind);
  return byKind !== 0 ? byKind : left.value < right.value ? -1 : 1;
}

function describe({ kind, value }: FreezeSubject): string {
  return `${kind}=${value}`;
}

function readRequest(serial: string | undefined, keyId: string | undefined, reason: string) {
  if ((serial === undefined) === (keyId === undefined)) throw invalid("Pass either --serial or --key-id");
  if (keyId !== undefined && !revokeKeyIdsRequest.safeParse({ key_ids: [keyId] }).success) {
    throw invalid("Cannot revoke: --key-id is empty, too long or has control characters");
  }
  const [path, subject, { data: body }] = serial === undefined
    ? [
      "/v1/revocations/key-ids",
      `key_id=${JSON.stringify(keyId)}`,
      revokeKeyIdsRequest.safeParse({ key_ids: [keyId], reason }),
    ] as const
    : [
      "/v1/revocations/serials",
      `serial=${parseSerial(serial)}`,
      revokeSerialsRequest.safeParse({ serials: [parseSerial(serial)], reason }),
    ] as const;
  if (body === undefined) throw invalid("Cannot revoke: --reason must have no control characters");
  return { path, body, subject };
}

/** Hosts poll within this time. */
const WAIT_MS = 30_000;
const PAUSE_MS = 200;

/**
 * Waits until all hosts have a revocation, or the time is up, and adds the hosts to the result. A host without the
 * revocation is a failure.
 *
 * @param version the version of the list with the revocation; `undefined`: the signer publishes no list
 */
async function waitForHosts(call: Call, result: CommandResult, version: number | undefined) {
  if (version === undefined) {
    const why = "the signer publishes no revocation list: its config has no envelope_key";
    return { ...result, lines: [...result.lines, why], failed: true };
  }
  const status = await pollStatus(call, version);
  const spread = spreadOf(status, version);
  const isEmpty = status.readers.length === 0;
  const none = isEmpty ? ["no host fetches the list: krl_callers of the signer's config is empty"] : [];
  return {
    json: { ...z.looseObject({}).parse(result.json), krl_hosts: status },
    lines: [...result.lines, ...describeSpread(spread, version), ...none],
    failed: result.failed === true || spread.behind.length > 0 || isEmpty,
  };
}

async function pollStatus(call: Call, version: number): Promise<KrlStatus> {
  const until = systemClock.now() + WAIT_MS;
  for (;;) {
    const question = { what: "wait for hosts", method: "GET", path: "/v1/krl/hosts" } as const;
    const { data } = await askSigner(call, { ...question, schema: krlStatus });
    if (spreadOf(data, version).behind.length === 0 || systemClock.now() >= until) return data;
    await systemClock.sleep(PAUSE_MS, call.signal);
  }
}

/**
 * The hosts that have installed a version or a later one, and the other hosts. A host whose version is later than the
 * signer's own does not have this signer's list, because hosts never accept an older list.
 */
export function spreadOf({ version: current, readers }: KrlStatus, version: number) {
  const holds = readers.filter(({ version: has = 0 }) => has >= version && has <= current);
  return { current, holds, behind: readers.filter((reader) => !holds.includes(reader)) };
}

/** A line for each host, with outdated hosts first. */
export function describeSpread({ current, holds, behind }: ReturnType<typeof spreadOf>, version: number) {
  const count = holds.length + behind.length;
  return [
    `revocation list ${version}: installed on ${holds.length} of ${count}`,
    ...behind.map((reader) => `outdated: ${describeReader(reader, current)}`),
    ...holds.map((reader) => `current: ${nameOf(reader)}`),
  ];
}

function describeReader(reader: KrlReader, current: number): string {
  const { version, seen_at: seenAt = "?" } = reader;
  if (version === undefined) return `${nameOf(reader)} has not fetched it since the signer's start`;
  const has = `${nameOf(reader)} has version ${version}`;
  if (version <= current) return `${has}, last request at ${seenAt}`;
  return `${has}, later than this signer's ${current}, and rejects its lists; see revocation-lists.md`;
}

/** The host names, followed by the identity that fetches the list. */
function nameOf({ caller, hosts }: KrlReader): string {
  return hosts.length === 0 ? caller : `${hosts.join(",")} (${caller})`;
}
