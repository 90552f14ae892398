import { resolve } from "node:path";
import { parseJson } from "@gateway/shared/json";
import { readLogs } from "./read_logs.ts";
import type { LogRecord, ShownRecord } from "./record.ts";
import { createRecordTable } from "./record_table.ts";
import type { CommandContext } from "../kit/context.ts";
import type { ApiEvent } from "./api_event.ts";
import { readApiLogs } from "./api_logs.ts";
import { readToken, type RecordedToken } from "./recorded_token.ts";
import { TokenSearch, type TokenUses } from "./token_uses.ts";
import type { CommandResult } from "../kit/output.ts";
import { EMPTY_CELL, INDENT, shortenText } from "../kit/table.ts";

interface JoinRequest {
  readonly log: string;
  readonly all?: boolean;
  readonly set?: boolean | "instances";
  readonly full?: boolean;
  readonly limit?: number;
  /** The audit logs of API servers. */
  readonly join: readonly string[];
  /** Ids of tokens of `cluster check`. */
  readonly checked?: readonly string[];
  /** Chooses the records that are shown. */
  readonly matches: (record: ShownRecord) => boolean;
}

/** Shows the records of tokens of clusters, each with what the API server's own audit log says of its token. */
export async function joinAudits(request: JoinRequest, context: CommandContext): Promise<CommandResult> {
  const { workingFolder } = context;
  const { tokens, chosen, malformed } = await readTokens(request, workingFolder);
  const search = new TokenSearch(tokens, new Set(request.checked));
  await readApiLogs(request.join, workingFolder, (event) => search.learn(event));
  const read = await readApiLogs(request.join, workingFolder, (event) => search.take(event));
  const joined = chosen.map((one) => ({ ...one, ...search.find(one.token.jti) }));
  const isBeyond = joined.some(({ used }) => used.some(({ asRecorded }) => !asRecorded));
  const table = createRecordTable({
    columns: context.terminal.columns,
    full: request.full === true,
    instances: request.set === "instances",
  });
  const notes = describeReading({ ourMalformed: malformed, theirMalformed: read.malformed, tokens, search });
  return {
    json: {
      records: joined.map(({ line, token, issued, used, isCut }) => ({
        record: parseJson(line.text),
        jti: token.jti,
        issued: issued.map(describeEvent),
        used: used.map(({ event, asRecorded }) => ({ ...describeEvent(event), as_recorded: asRecorded })),
        cut: isCut,
      })),
      unexplained: search.unexplained.map(describeEvent),
      unexplained_cut: search.isCut,
      notes,
    },
    lines: [
      ...(joined.length === 0 ? ["(no matching entries)"] : [table.heading]),
      ...joined.flatMap(({ line, token, ...uses }) => [
        ...table.format(line.record, line.instance),
        ...formatUses(token, uses),
      ]),
      ...formatUnexplained(search.unexplained, search.isCut),
      ...notes,
    ],
    failed: isBeyond || search.unexplained.length > 0,
  };
}

/** All tokens that the log tells of, and the records among them that are asked for. */
async function readTokens(request: JoinRequest, workingFolder: string) {
  const tokens = new Map<string, RecordedToken>();
  const chosen: { readonly line: LogRecord; readonly token: RecordedToken }[] = [];
  let malformed = 0;
  for await (const line of readLogs(resolve(workingFolder, request.log), request)) {
    if (line === undefined) malformed++;
    const token = line && readToken(line.record);
    if (line === undefined || token === undefined) continue;
    tokens.set(token.jti, token);
    if (!request.matches(line.record)) continue;
    chosen.push({ line, token });
    if (request.limit !== undefined && chosen.length > request.limit) chosen.shift();
  }
  return { tokens, chosen, malformed };
}

function describeEvent({ auditId, issuedJti, ...event }: ApiEvent) {
  return { ...event, audit_id: auditId, issued_jti: issuedJti };
}

interface Reading {
  readonly ourMalformed: number;
  readonly theirMalformed: number;
  readonly tokens: ReadonlyMap<string, RecordedToken>;
  readonly search: TokenSearch;
}

function describeReading({ ourMalformed, theirMalformed, tokens, search }: Reading): readonly string[] {
  return [
    ...(ourMalformed === 0
      ? []
      : [`${ourMalformed} malformed line(s) of our log skipped; see broker-ctl audit verify`]),
    ...(theirMalformed === 0 ? [] : [`${theirMalformed} line(s) of the API server's log not understood`]),
    ...(tokens.size === 0 || search.found > 0 ? [] : [
      "none of the tokens is in the API server's log: is it that cluster's, of that time, and does its audit " +
      "policy have these requests? Kubernetes before 1.30 writes no ids of tokens",
    ]),
  ];
}

/** What became of a token, for people. */
function formatUses(token: RecordedToken, { issued, used, isCut }: TokenUses): readonly string[] {
  const times = issued.map(({ time }) => shortTime(time)).join(" and ");
  const origin = times === "" ? "the cluster's log does not say when it was issued" : `issued ${times}`;
  const uses = used.length === 0
    ? "never used"
    : used.length === 1
    ? "used once"
    : `used ${used.length} times`;
  return [
    `${INDENT}token ${token.jti}: ${origin}; ${uses}`,
    ...used.map(({ event, asRecorded }) =>
      `${INDENT}  ${formatRequest(event)}${asRecorded ? "" : "  NOT WHAT IT WAS ISSUED FOR"}`
    ),
    ...(isCut ? [`${INDENT}  and more`] : []),
  ];
}

/** What no record tells of, for people. */
function formatUnexplained(events: readonly ApiEvent[], isCut: boolean): readonly string[] {
  if (events.length === 0) return [];
  return [
    "",
    "Of these no record tells:",
    ...events.map((event) => `${INDENT}${formatRequest(event)} ${describeUser(event)}`),
    ...(isCut ? [`${INDENT}and more of them`] : []),
  ];
}

function formatRequest({ time, verb, status, uri, addresses }: ApiEvent): string {
  const from = addresses.length === 0 ? "" : ` from ${addresses.join(", ")}`;
  return `${shortTime(time)}  ${verb} ${status ?? EMPTY_CELL} ${shortenText(uri)}${from}`;
}

function describeUser({ user, impersonated, jti, issuedJti }: ApiEvent): string {
  return [
    `by ${user}`,
    ...(impersonated === undefined ? [] : [`as ${impersonated}`]),
    ...(jti === undefined ? [] : [`with token ${jti}`]),
    ...(issuedJti === undefined ? [] : [`issued token ${issuedJti}`]),
  ].join(" ");
}

/** Without fractions of a second, as in the table of records. */
function shortTime(time: string): string {
  return time.replace(/\.\d+Z$/, "Z");
}
