import { systemClock } from "@gateway/shared/clock";
import { type Call, command, count, type Given, repeat } from "../kit/command.ts";
import { type CommandResult, createLineWriter, type Environment, readOutput } from "../kit/output.ts";
import { prepareSearch, SEARCH, usesConfig } from "./search.ts";
import { followLogs, listRotated, readLogs } from "./logs.ts";
import { createRecordTable, createShortTable, type LogRecord, shortTime } from "./record.ts";
import { parseJson } from "@gateway/shared/json";
import { EMPTY_CELL, INDENT, shortenText } from "../kit/table.ts";
import { type ApiEvent, readApiLogs, readToken, type RecordedToken, TokenSearch } from "./tokens.ts";

const MAX_LINES = 100_000;

const FULL = { "--full": "do not truncate long commands and messages" } as const;

const SHOW_TAKES = {
  ...SEARCH,
  "--all": "include rotated files",
  "--limit <count>": count("maximum number of records, newest first (default: all)", 1, MAX_LINES),
  ...FULL,
  "--join <file>": repeat("audit log of a Kubernetes API server; repeatable"),
  "--checked <id>": repeat("with --join: token ID that cluster check printed; repeatable"),
} as const;

type ShowFlags = Given<typeof SHOW_TAKES>;

export const SHOW = command({
  name: "show",
  summary: "Show the records of audit logs.",
  takes: SHOW_TAKES,
  help: `
Examples:
  broker-ctl audit show --host web01 --user alice --since 2h
  broker-ctl audit show --outcome denied --limit 20 -o wide
  broker-ctl audit show --request 0b9b35a2 --json
  broker-ctl audit show --set logs --serial 9223372036854775808
  broker-ctl audit show --log log/signer/audit.log --all --join /var/log/kubernetes/audit.log

By default, the command reads the logs that the signer's config and the configs next to it name (audit_log). --set with
a directory merges <directory>/<instance>/audit.log of all instances. Records are sorted by time and are not verified;
broker-ctl audit verify does that. -o wide shows all details: absolute time, session, reason, serial, SHA-256, request.
Commands of more than 400 characters are truncated; --full shows all of them. --json prints one record per line, of
several logs as {"instance":…,"record":…}.

--join matches the signer's records with a cluster's own audit log. For each token it shows the requests that used it,
and marks requests that the token was not issued for. Then it lists requests by the same ServiceAccounts that no record
explains. Pass --all: unshown records explain requests too. Exit code 1: a token was misused, or a request is
unexplained. Tokens of broker-ctl cluster check have no record; --checked <id> explains their requests about their own
rights. Files whose names end with .gz are decompressed.
`,
  uses: usesConfig,
  run: async ({ join, ...flags }, call) => {
    const search = await prepareSearch(flags, call.workingFolder);
    if (join === undefined) return await show(flags, call, search);
    return await joinAudits({ ...flags, ...search, join }, call);
  },
});

type Search = Awaited<ReturnType<typeof prepareSearch>>;

/** Writes records as a table with a heading, or as JSON: as the services signed them. */
function createPrinter(
  { json = false, full = false, ...given }: ShowFlags,
  { terminal }: Call,
  { hasInstances, now }: Pick<Search, "hasInstances"> & { readonly now?: number },
) {
  const writer = createLineWriter(terminal, { json });
  const { columns } = terminal;
  const isWide = (given.output ?? (columns === undefined ? "wide" : "table")) === "wide";
  const { headers, color = false } = readOutput(given, terminal);
  const options = { full, instances: hasInstances, color };
  const table = isWide ? createRecordTable(options) : createShortTable(options, columns, now);
  let shown = 0;
  return {
    note: writer.note,
    count: () => shown,
    print({ text, record, instance }: LogRecord) {
      if (shown++ === 0 && !json && headers) terminal.out(`${table.heading}\n`);
      // Do not parse and write the record, because its text must stay as it was signed.
      const wrapped = hasInstances ? `{"instance":${JSON.stringify(instance)},"record":${text}}` : text;
      if (json) writer.line(wrapped);
      else terminal.out(`${table.format(record, instance)}\n`);
    },
  };
}

async function show(flags: ShowFlags, call: Call, search: Search) {
  const printer = createPrinter(flags, call, { ...search, now: systemClock.now() });
  const { all = false, limit } = flags;
  let [malformed, matched] = [0, 0];
  // With a limit, a ring buffer keeps the newest matches.
  const ring: LogRecord[] = [];
  const logs = await search.listSome();
  for await (const record of readLogs(logs, { all })) {
    if (record === undefined) malformed++;
    else if (!search.matches(record.record)) continue;
    else if (limit === undefined) printer.print(record);
    else ring[matched++ % limit] = record;
  }
  const oldest = limit === undefined ? 0 : matched % limit;
  [...ring.slice(oldest), ...ring.slice(0, oldest)].forEach(printer.print);
  if (printer.count() === 0) printer.note("(no matching entries)");
  const rotated = search.hasInstances && !all ? await Promise.all(logs.map(listRotated)) : [];
  if (rotated.flat().length > 0) printer.note("rotated files were not searched; --all includes them");
  if (malformed > 0) printer.note(`${malformed} malformed line(s) skipped; see broker-ctl audit verify`);
}

export const TAIL = command({
  name: "tail",
  summary: "Follow audit logs.",
  takes: {
    ...SEARCH,
    "-n, --lines <count>": {
      ...count("number of existing records of each log to show", 0, MAX_LINES),
      fallback: 20,
    },
    ...FULL,
  },
  help: `
Examples:
  broker-ctl audit tail --host web01 --user alice
  broker-ctl audit tail --log log/signer/audit.log -n 100 --json
  broker-ctl audit tail --log log/mcp/audit.log --set

Runs until interrupted, and follows rotation. Logs, filters and formats are those of broker-ctl audit show, except that
the table shows the time of day (UTC).
`,
  uses: usesConfig,
  run: async ({ lines = 0, ...flags }, call) => {
    const search = await prepareSearch(flags, call.workingFolder);
    const { print, note } = createPrinter(flags, call, search);
    await followLogs({
      list: search.list,
      lines,
      clock: systemClock,
      signal: call.signal,
      onMissing: (path) => note(`waiting for ${flags.log ?? path}`),
      onRecord: (record) => {
        if (record === undefined) note("malformed line skipped; see broker-ctl audit verify");
        else if (search.matches(record.record)) print(record);
      },
    });
  },
});

type JoinRequest = Search & Pick<ShowFlags, "all" | "full" | "limit" | "checked"> & {
  /** The audit logs of API servers. */
  readonly join: readonly string[];
};

/** Shows the signer's records of tokens, each with the requests in the API server's audit log that used the token. */
async function joinAudits(request: JoinRequest, { workingFolder }: Environment): Promise<CommandResult> {
  const { tokens, chosen, malformed } = await readTokens(request);
  const search = new TokenSearch(tokens, new Set(request.checked));
  await readApiLogs(request.join, workingFolder, (event) => search.learn(event));
  const theirMalformed = await readApiLogs(request.join, workingFolder, (event) => search.take(event));
  const joined = chosen.map((one) => ({ ...one, ...search.find(one.token.jti) }));
  const { events: unexplained, isCut } = search.unexplained;
  const table = createRecordTable({ full: request.full === true, instances: request.hasInstances });
  const notes = [
    ...(malformed === 0
      ? []
      : [`${malformed} malformed line(s) of the signer's log skipped; see broker-ctl audit verify`]),
    ...(theirMalformed === 0 ? [] : [`${theirMalformed} malformed line(s) of the API server's log skipped`]),
    ...(tokens.size === 0 || search.found > 0 ? [] : [
      "The API server's log contains none of the tokens. Check its cluster, time and audit policy; Kubernetes before 1.30 " +
      "does not log token IDs.",
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
        table.format(line.record, line.instance),
        ...formatUses(token, uses).map((text) => `${INDENT}${text}`),
      ]),
      ...(unexplained.length === 0 ? [] : [
        "",
        "Requests that no record explains:",
        ...unexplained.map((event) => `${INDENT}${formatRequest(event)} ${describeUser(event)}`),
        ...(isCut ? [`${INDENT}… and more`] : []),
      ]),
      ...notes,
    ],
    failed: unexplained.length > 0 || joined.some(({ used }) => used.some(({ asRecorded }) => !asRecorded)),
  };
}

async function readTokens(request: JoinRequest) {
  const tokens = new Map<string, RecordedToken>();
  const chosen: { readonly line: LogRecord; readonly token: RecordedToken }[] = [];
  let malformed = 0;
  for await (const line of readLogs(await request.listSome(), request)) {
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

function formatUses(token: RecordedToken, { issued, used, isCut }: ReturnType<TokenSearch["find"]>) {
  const times = issued.map(({ time }) => shortTime(time)).join(" and ");
  const origin = times === "" ? "no issue time in the cluster's log" : `issued ${times}`;
  const count = ["never used", "used once"][used.length] ?? `used ${used.length} times`;
  return [
    `token ${token.jti}: ${origin}; ${count}`,
    ...used.map(({ event, asRecorded }) =>
      `  ${formatRequest(event)}${asRecorded ? "" : "  MISUSED: not issued for this request"}`
    ),
    ...(isCut ? ["  … and more"] : []),
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
