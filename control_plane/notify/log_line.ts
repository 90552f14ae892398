import { askedKind, describeAsked, elevationLabel, isCommandShown } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { MAX_COMMAND_LENGTH, MAX_VALUE_LENGTH } from "./facts.ts";
import { cutWithNote } from "./text.ts";

const BARE = /^[\w.@:/+-]*$/;

/**
 * A pending approval as one line of `key=value`. The command is always quoted, other values where they hold more
 * than the characters of names, so that nothing in a value looks like another key.
 */
export function pendingLine(record: ApprovalRecord): string {
  const { id, caller, end_user = "", host, command, sudo, sudo_user, access, rule = "", reason = "" } =
    record;
  const fields = Object.entries({ id, caller, user: end_user, host }).map(([key, value]) =>
    field(key, value)
  );
  return [
    "[approval] PENDING",
    ...fields,
    `cmd=${quoteText(cutWithNote(command, MAX_COMMAND_LENGTH))}`,
    field("elevation", elevationLabel(sudo, sudo_user) || "none"),
    ...(access === undefined ? [] : [field("access", access.join("+"))]),
    field("rule", rule),
    // Where no command says it.
    ...(isCommandShown(askedKind(record)) ? [] : [`asks=${quoteText(describeAsked(record))}`]),
    ...(reason === "" ? [] : [`reason=${quoteText(reason)}`]),
  ].join(" ");
}

function field(key: string, value: string): string {
  const text = cutWithNote(value, MAX_VALUE_LENGTH);
  return `${key}=${BARE.test(text) ? text : quoteText(text)}`;
}
