import type { Command } from "commander";
import { AppError } from "@gateway/shared/errors";
import {
  FREEZE_KINDS,
  freezeRequest,
  freezeResponse,
  type FreezeSubject,
  type RevocationEntry,
  revocationList,
  unfreezeResponse,
} from "@gateway/shared/wire";
import { asOneWord, once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { readSubject, type SubjectFlags } from "../kit/freeze_subject.ts";
import type { CommandResult } from "../kit/output.ts";
import { addRemoteOptions, askSigner, REMOTE_HELP } from "../kit/remote.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";
import { waitForHosts } from "./wait_for_hosts.ts";

interface FreezeFlags {
  readonly reason?: string;
  readonly volatile?: boolean;
  readonly wait?: boolean;
}

const FREEZE_EXAMPLES = `
Examples:
  broker-ctl freeze --end-user agent-7 --reason INC-42   # an agent, or a person: for whom a broker asks
  broker-ctl freeze --caller broker-2                    # a broker, with all that ask through it
  broker-ctl freeze --end-user ann@example.com --wait
  broker-ctl freeze --serial 9223372036854775808 --volatile

The signer's log says of each request who asked (caller) and for whom (user=). Who is frozen gets no certificate any
more, sees no hosts, and loses its grants; brokers close matching sessions when they look next. A session or a serial
is closed where it runs, and stops nothing else.
Hosts that fetch the signer's revocation list (krl_callers) refuse the certificates of a frozen caller, end user or
serial that are still valid; an unfreeze does not bring those back. --wait waits up to 30 s until every host has the
list, and says which are behind (exit code 1), also which signers did not confirm the freeze. A session's certificate is listed by the broker that ends it.
Without state_db a signer forgets a freeze when it restarts, and wants --volatile for it. Where state_db can't
take a freeze it is in force all the same: the answer says that a restart undoes it, and the exit code is 1.
${REMOTE_HELP}`;

const UNFREEZE_EXAMPLES = `
Examples:
  broker-ctl unfreeze --end-user agent-7

What was revoked with the freeze stays revoked.
${REMOTE_HELP}`;

const KILL_EXAMPLES = `
Examples:
  broker-ctl session kill 5f2c9a --reason INC-42

The same as broker-ctl freeze --session-id. broker-ctl audit show prints the ID of each session ([session: 5f2c9a]),
and ssh_session_open returns it to the agent.
${REMOTE_HELP}`;

const REVOCATIONS_EXAMPLES = `
Examples:
  broker-ctl revocations
  broker-ctl revocations --json

Who froze it and why is shown to callers in reload_callers only.
${REMOTE_HELP}`;

const NOT_PERSISTED =
  "not stored: in force now, but a restart of the signer undoes it; make room for its state_db " +
  "(its log says what failed), then freeze again";

const VOLATILE = "where there is no state_db: freeze until the signer restarts";

/** `freeze`, `unfreeze`, `session kill` and `revocations`: the kill switch. */
export const addFreeze: AddCommand = (program, context) => {
  addRemoteOptions(addSubjectOptions(program.command("freeze")))
    .description("Stop a caller, an end user, a session or a certificate at once.")
    .option("--reason <text>", "why, such as a ticket's number; blanks become _", once)
    .option("--volatile", VOLATILE)
    .option("--wait", "say on which hosts it holds")
    .addHelpText("after", FREEZE_EXAMPLES)
    .action((flags: SubjectFlags & FreezeFlags, command) =>
      run(
        command,
        context,
        () => freeze(command, context, { ...flags, ...readSubject(flags), what: "freeze" }),
      )
    );
  addRemoteOptions(addSubjectOptions(program.command("unfreeze")))
    .description("End a freeze.")
    .addHelpText("after", UNFREEZE_EXAMPLES)
    .action((flags: SubjectFlags, command) =>
      run(command, context, () => unfreeze(command, context, readSubject(flags)))
    );
  const session = program.command("session").description("End sessions.");
  addRemoteOptions(session.command("kill"))
    .description("End a session at once.")
    .argument("<id>", "session ID")
    .option("--reason <text>", "why, such as a ticket's number; blanks become _", once)
    .option("--volatile", VOLATILE)
    .addHelpText("after", KILL_EXAMPLES)
    .action((id: string, flags: FreezeFlags, command) =>
      run(command, context, () => {
        const subject = readSubject({ sessionId: id });
        return freeze(command, context, { ...flags, ...subject, what: "session kill" });
      })
    );
  addRemoteOptions(program.command("revocations"))
    .description("List what is frozen.")
    .addHelpText("after", REVOCATIONS_EXAMPLES)
    .action((_flags, command) => run(command, context, () => list(command, context)));
};

function addSubjectOptions(command: Command): Command {
  return command
    .option("--caller <cn>", "who asks the signer: the CN of a broker", once)
    .option("--end-user <user>", "for whom a broker asks: an agent's CN, or a person", once)
    .option("--session-id <id>", "a session", once)
    .option("--serial <number>", "the serial of a certificate", once);
}

function run(command: Command, context: CommandContext, action: () => Promise<CommandResult>): Promise<void> {
  return context.run(command, ["config", "clientConfig"], action);
}

async function freeze(
  command: Command,
  context: CommandContext,
  wish: FreezeSubject & FreezeFlags & { readonly what: string },
): Promise<CommandResult> {
  const { kind, value, reason = "", volatile = false, wait = false, what } = wish;
  if (wait && kind === "session_id") {
    throw new AppError("invalid_request", "Cannot wait for a session: freeze its --serial, or its --caller");
  }
  const { data: request } = freezeRequest.safeParse({
    kind,
    value,
    reason: asOneWord(reason),
    allow_volatile: volatile,
  });
  if (request === undefined) {
    throw new AppError("invalid_request", "Cannot freeze: --reason must have no control characters");
  }
  const { body, data } = await askSigner(command, context, {
    what,
    method: "POST",
    path: "/v1/freeze",
    body: request,
    schema: freezeResponse,
    advice: {
      409: "--volatile freezes until the signer restarts; state_db in its config makes freezes last",
    },
  });
  const done = data.newly_frozen ? "frozen" : "already frozen (refreshed)";
  const warning = data.warning === undefined ? [] : [`warning: ${data.warning}`];
  const silent = (data.silent_signers ?? []).map((name) =>
    `not confirmed by signer ${name}: certificates that it issued in its last 2 s are revoked when it is back`
  );
  const failed = data.persisted === false || (wait && silent.length > 0);
  const listed = data.certificates_revoked === undefined
    ? ""
    : `, certificates revoked: ${data.certificates_revoked}`;
  const tokens = data.tokens_revoked === undefined
    ? ""
    : `, Kubernetes tokens revoked: ${data.tokens_revoked}`;
  const result = {
    json: body,
    lines: [
      `${done} ${describe(wish)} (grants revoked: ${data.grants_revoked}${listed}${tokens})`,
      ...(data.persisted === false ? [NOT_PERSISTED] : []),
      ...silent,
      ...warning,
    ],
    failed,
  };
  return wait ? await waitForHosts(command, context, { result, version: data.krl_version }) : result;
}

async function unfreeze(
  command: Command,
  context: CommandContext,
  subject: FreezeSubject,
): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: "unfreeze",
    method: "POST",
    path: "/v1/unfreeze",
    body: subject,
    schema: unfreezeResponse,
  });
  const line = data.was_frozen ? `unfrozen ${describe(subject)}` : `${describe(subject)} was not frozen`;
  return { json: body, lines: [line] };
}

async function list(command: Command, context: CommandContext): Promise<CommandResult> {
  const { body, data } = await askSigner(command, context, {
    what: "revocations",
    method: "GET",
    path: "/v1/revocations",
    schema: revocationList,
    advice: { 403: "the certificate's caller is frozen, or not known to the signer" },
  });
  const rows = data.toSorted(bySubject).map((entry) => [
    entry.kind,
    entry.value,
    entry.frozen_at,
    entry.frozen_by || EMPTY_CELL,
    entry.reason || EMPTY_CELL,
  ]);
  const heading = ["KIND", "VALUE", "FROZEN AT (UTC)", "BY", "REASON"];
  return {
    json: body,
    lines: rows.length === 0
      ? ["(no frozen subjects)"]
      : formatTable(heading, rows, context.terminal.columns),
  };
}

function bySubject(left: RevocationEntry, right: RevocationEntry): number {
  const byKind = FREEZE_KINDS.indexOf(left.kind) - FREEZE_KINDS.indexOf(right.kind);
  return byKind !== 0 ? byKind : left.value < right.value ? -1 : 1;
}

function describe({ kind, value }: FreezeSubject): string {
  return `${kind}=${value}`;
}
