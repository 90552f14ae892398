import { resolve } from "node:path";
import { parseJson } from "@gateway/shared/json";
import type { Environment } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { EMPTY_CELL, INDENT, shortenText } from "../kit/table.ts";
import { type LogChoice, readLogs } from "./logs.ts";
import { createRecordTable, type LogRecord, shortTime, type ShownRecord } from "./record.ts";
import { type ApiEvent, readApiLogs, readToken, type RecordedToken, TokenSearch } from "./tokens.ts";

interface JoinRequest extends LogChoice {
  readonly log: string;
  readonly full?: boolean;
  readonly limit?: number;
  /** The audit logs of API servers. */
  readonly join: readonly string[];
  /** IDs of tokens of `cluster check`. */
  readonly checked?: readonly string[];
  readonly matches: (record: ShownRecord) => boolean;
}

/** Shows the records of tokens for clusters, each with what the API server's own audit log says of the token. */
export async function joinAudits(request: JoinRequest, context: Environment): Promise<CommandResult> {
  const { workingFolder, terminal: { columns } } = context;
  const { tokens, chosen, malformed } = await readTokens(request, workingFolder);
  const search = new TokenSearch(tokens, new Set(request.checked));
  await readApiLogs(request.join, workingFolder, (event) => search.learn(event));
  const theirMalformed = await readApiLogs(request.join, workingFolder, (event) => search.take(event));
  const joined = chosen.map((one) => ({ ...one, ...search.find(one.token.jti) }));
  const { events: unexplained, isCut } = search.unexplained;
  const table = createRecordTable({
    ...{ columns, full: request.full === true, instances: request.set === "instances" },
  });
  const notes = [
    ...(malformed === 0
      ? []
      : [`${malformed} malformed line(s) of our log skipped; see broker-ctl audit verify`]),
    ...(theirMalformed === 0 ? [] : [`${theirMalformed} line(s) of the API server's log not understood`]),
    ...(tokens.size === 0 || search.found > 0 ? [] : [
      "none of the tokens is in the API server's log: is it that cluster's, of that time, and does its audit " +
      "policy have these requests? Kubernetes before 1.30 writes no ids of tokens",
    ]),
  ];
  return {
    json: {
      records: joined.map(({ line, token, issued, used, isCut }) => ({
        record: parseJson(line.text),
        jti: token.jti,
        issued: issued.map(describeEvent),
        used: used.map(({ event, asRecorded }) => ({ ...describeEvent(event), as_recorded: asRecorded })),
        cut: isCut,
      })),
      unexplained: unexplained.map(describeEvent),
      unexplained_cut: isCut,
      notes,
    },
    lines: [
      ...(joined.length === 0 ? ["(no matching entries)"] : [table.heading]),
      ...joined.flatMap(({ line, token, ...uses }) => [
        ...table.format(line.record, line.instance),
        ...formatUses(token, uses).map((text) => `${INDENT}${text}`),
      ]),
      ...(unexplained.length === 0 ? [] : [
        "",
        "Of these no record tells:",
        ...unexplained.map((event) => `${INDENT}${formatRequest(event)} ${describeUser(event)}`),
        ...(isCut ? [`${INDENT}and more of them`] : []),
      ]),
      ...notes,
    ],
    failed: unexplained.length > 0 || joined.some(({ used }) => used.some(({ asRecorded }) => !asRecorded)),
  };
}

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

function formatUses(
  token: RecordedToken,
  { issued, used, isCut }: ReturnType<TokenSearch["find"]>,
): readonly string[] {
  const times = issued.map(({ time }) => shortTime(time)).join(" and ");
  const origin = times === "" ? "the cluster's log does not say when it was issued" : `issued ${times}`;
  const count = used.length === 0
    ? "never used"
    : used.length === 1
    ? "used once"
    : `used ${used.length} times`;
  return [
    `token ${token.jti}: ${origin}; ${count}`,
    ...used.map(({ event, asRecorded }) =>
      `  ${formatRequest(event)}${asRecorded ? "" : "  NOT WHAT IT WAS ISSUED FOR"}`
    ),
    ...(isCut ? ["  and more"] : []),
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
