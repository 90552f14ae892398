import { quoteText } from "@gateway/shared/text";
import { sessionList } from "@gateway/shared/wire";
import { freeze, FREEZE_OPTIONS, readSubject } from "../incident/freeze.ts";
import { type Call, command, type CommandGroup } from "../kit/command.ts";
import { notFound } from "../kit/output.ts";
import { asking, askSigner, REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";
import { EMPTY_CELL, shortenText, tableOr } from "../kit/table.ts";

const OPEN = { method: "GET", path: "/v1/sessions", schema: sessionList } as const;

const LIST = asking({
  name: "list",
  summary: "List open sessions.",
  takes: SIGNER,
  help: `
Examples:
  broker-ctl session list

Brokers report their sessions after each change and every 15 s. The report of a broker that stops disappears after a
minute. A broker in local mode, or of an earlier version, reports nothing.
`,
  question: () => OPEN,
  show({ sessions, complete }, _given, { terminal }) {
    const rows = sessions.map((session) => [
      session.id,
      session.end_user,
      session.host,
      session.opened_at,
      session.last_command === "" ? EMPTY_CELL : shortenText(session.last_command),
      session.recorded ? "yes" : "no",
    ]);
    const heading = ["ID", "WHO", "HOST", "SINCE", "LAST COMMAND", "RECORDED"];
    return [
      ...tableOr("(no open sessions)", heading, rows, terminal.columns),
      ...complete ? [] : ["Other signers can have more sessions: pass --url of each signer."],
    ];
  },
});

const KILL = command({
  name: "kill",
  summary: "End a session immediately.",
  takes: { ...SIGNER, "<id>": "session ID, or a unique prefix of it", ...FREEZE_OPTIONS },
  help: `
Examples:
  broker-ctl session kill 5f75dc07 --reason INC-42

Same as broker-ctl freeze --session-id. broker-ctl session list prints the ID of each session, and ssh_session_open
returns it to the agent.
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ id, ...flags }, call) {
    const { value } = readSubject({ sessionId: id });
    return await freeze(call, { kind: "session_id", value: await completeId(call, value) }, flags);
  },
});

/** `session`: open sessions. */
export const SESSION: CommandGroup = {
  name: "session",
  summary: "List and end sessions.",
  commands: [LIST, KILL],
};

/** The ID with this prefix. A complete ID needs no list, because it may be of a broker that does not report. */
async function completeId(call: Call, id: string): Promise<string> {
  if (/^[0-9a-f]{24}$/.test(id)) return id;
  const { data: { sessions } } = await askSigner(call, OPEN);
  const ids = [...new Set(sessions.map((session) => session.id))].filter((each) => each.startsWith(id));
  const [only] = ids;
  if (ids.includes(id)) return id;
  if (only !== undefined && ids.length === 1) return only;
  const named = ids.length > 1 ? `${ids.length} sessions have` : "no session has";
  throw notFound(`${named} the ID prefix ${quoteText(id)}`, undefined, "broker-ctl session list");
}
