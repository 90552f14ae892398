import { findById } from "../kit/output.ts";
import { systemClock } from "@gateway/shared/clock";
import { sessionList } from "@gateway/shared/wire";
import { freeze, FREEZE_OPTIONS, readSubject } from "../incident/freeze.ts";
import { command, type CommandGroup } from "../kit/command.ts";
import { asking, askSigner, REMOTE_HELP, usesSigner } from "../kit/remote.ts";
import { ageCell, shortenIds } from "../kit/table.ts";

const OPEN = { method: "GET", path: "/v1/sessions", schema: sessionList } as const;

const LIST = asking({
  name: "list",
  summary: "List open sessions.",
  help: `
Examples:
  broker-ctl session list

--json prints complete IDs and commands, and the broker (caller) of each session. Brokers report their sessions every
5 s. The sessions of a broker that stops disappear after a minute. A broker in local mode, or of an earlier version,
reports nothing. A compromised broker can hide sessions, and report false ones.
`,
  question: () => OPEN,
  show({ sessions, complete }) {
    const now = systemClock.now();
    const shortId = shortenIds(sessions.map(({ id }) => id));
    const rows = sessions.map((session) => [
      shortId(session.id),
      session.end_user,
      session.host,
      ageCell(session.opened_at, now),
      session.recorded ? "yes" : "no",
      session.last_command,
      session.caller,
    ]);
    const columns = ["ID", "WHO", "HOST", "AGE", "RECORDED", "LAST COMMAND", "+BROKER"];
    return [
      { none: "(no open sessions)", columns, rows },
      ...complete ? [] : ["Other signers can have more sessions: pass --url of each signer."],
    ];
  },
});

const KILL = command({
  name: "kill",
  summary: "End a session immediately.",
  takes: { "<id>": "session ID, or a unique prefix of it", ...FREEZE_OPTIONS },
  help: `
Examples:
  broker-ctl session kill 5f75dc07 --reason INC-42

Same as broker-ctl freeze --session-id. broker-ctl session list prints the ID of each session, and ssh_session_open
returns it to the agent.
${REMOTE_HELP}`,
  uses: usesSigner,
  async run({ id, ...flags }, call) {
    const subject = readSubject({ sessionId: id });
    // A complete ID needs no list, because the broker of the session may not report.
    if (/^[0-9a-f]{24}$/.test(id)) return await freeze(call, subject, flags);
    const { data: { sessions } } = await askSigner(call, OPEN);
    const value = findById(id, sessions.map((session) => session.id), "session", "broker-ctl session list");
    return await freeze(call, { ...subject, value }, flags);
  },
});

/** `session`: open sessions. */
export const SESSION: CommandGroup = {
  name: "session",
  summary: "List and end sessions.",
  commands: [LIST, KILL],
};
