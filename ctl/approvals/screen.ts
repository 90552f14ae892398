// The screen of `approval watch`: the request that keys apply to, and a line of keys.
import { formatDuration, quoteText, visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { DEFAULT_LEARN, keyFacts } from "./text.ts";

/** The size of a terminal. */
export interface Screen {
  readonly columns: number;
  readonly rows: number;
}

/** The keys that decide: the question before and after the request, and the line that stays. */
export const CHOICES = {
  a: ["Approve", "", "approved"],
  d: ["Deny", "", "denied"],
  l: ["Approve", ` and identical requests for ${DEFAULT_LEARN}`, `approved for ${DEFAULT_LEARN}:`],
} as const;
export type Choice = keyof typeof CHOICES;

/** The request that keys apply to: the last one shown, until it is decided or gone. */
export interface Current {
  /** As it was first shown. A decision is about this request and its `joined` requests. */
  readonly record: ApprovalRecord;
  readonly shownAt: number;
  /** The page of a request that does not fit on this screen; absent: its beginning. */
  readonly viewed?: Screen & { readonly page: number };
  /** All pages were shown. */
  readonly isSeen?: boolean;
  /** The choice that needs a confirmation, or a note that the decision was sent. */
  readonly asked?: Choice | "sent" | undefined;
}

export interface WatchState {
  /** The oldest request comes first. */
  readonly pending: readonly ApprovalRecord[];
  readonly current?: Current | undefined;
  readonly skipped: ReadonlySet<string>;
  /** The response to the last key. */
  readonly notice?: string | undefined;
  /** Why the control plane does not respond. */
  readonly away?: string | undefined;
}

const INDENT = "  ";
const LABEL_WIDTH = 9;
/** A screen that does not fit the whole request shows at most this many facts. */
const MOST_FACTS = 8;
/** The lines for the position, for a notice and for the keys, and one unused line. */
const FOOTER_ROWS = 4;
const SMALLEST: Screen = { columns: 20, rows: 8 };
const KEYS = "[a]pprove [d]eny [l]earn [s]kip [?] [q]uit";
/** The notice after a key without a function, such as `?`. */
export const HELP = `a approves, d denies, l approves for ${DEFAULT_LEARN}, s skips, v turns pages, q quits`;

/** Draws the state in fewer than `rows` lines of at most `columns` columns. */
export function draw(
  state: WatchState,
  { now, ...screen }: Screen & { readonly now: number },
  emphasize?: (text: string) => string,
): readonly string[] {
  const { current, pending, notice = state.away } = state;
  const fit = (text: string) => cut(visibleText(text), screen.columns);
  const news = notice === undefined ? [] : [fit(notice)];
  if (current === undefined) return [...news, fit("(no pending requests; press q to quit)")];
  const { record, asked } = current;
  const { lines, page, pages } = layOut(current, screen, emphasize);
  if (pages === Infinity) return lines;
  const left = Math.floor(Math.max(0, Date.parse(record.expires_at ?? "") - now) / 1000) * 1000;
  const status = [
    page > 0 ? `page ${page} of ${pages}` : pages > 0 ? `TRUNCATED: [v]iew ${pages} pages` : "",
    `${pending.findIndex(({ id }) => id === record.id) + 1} of ${pending.length}`,
    Number.isNaN(left) ? "" : `${formatDuration(left)} left`,
  ];
  const keys = asked === undefined
    ? KEYS
    : asked === "sent"
    ? "sending the decision"
    : ask(asked, record, screen);
  return [...lines, fit(status.filter((each) => each !== "").join(", ")), ...news, fit(keys)];
}

/** The lines of a request. `pages` is 0 if they show all of it, and infinite if the screen is too small. */
export function layOut(
  { record, viewed }: Current,
  { columns, rows }: Screen,
  emphasize = (text: string): string => text,
): { readonly lines: readonly string[]; readonly page: number; readonly pages: number } {
  if (columns < SMALLEST.columns || rows < SMALLEST.rows) {
    return { lines: [cut("Enlarge the terminal.", columns)], page: 0, pages: Infinity };
  }
  const room = rows - FOOTER_ROWS;
  // Continued lines are indented: a hostile command must not look like a fact.
  const command = wrap(quoteText(record.command), columns - INDENT.length)
    .map((line, at) => at === 0 ? line : INDENT + line);
  const facts = keyFacts(record).map(([name, value = ""]) =>
    wrap(value, columns - LABEL_WIDTH).map((line, at) => (at === 0 ? name : "").padEnd(LABEL_WIDTH) + line)
  );
  const all = [...command.map(emphasize), "", ...facts.flat(), ""];
  if (all.length <= room) return { lines: all, page: 0, pages: 0 };
  const pages = Math.ceil(all.length / room);
  const page = viewed?.columns === columns && viewed.rows === rows ? viewed.page : 0;
  if (page > 0) return { lines: all.slice((page - 1) * room, page * room), page, pages };
  const begin = (lines: readonly string[], count: number) =>
    lines.length <= count ? lines : [...lines.slice(0, count - 1), cut(`${lines[count - 1]}…`, columns)];
  const first = facts.slice(0, MOST_FACTS).map((lines) => begin(lines, 1));
  const rest = Math.max(1, room - 1 - first.length);
  const lines = [...begin(command, rest).map(emphasize), "", ...first.flat()];
  return { lines: lines.slice(0, room), page, pages };
}

function ask(choice: Choice, { command, host }: ApprovalRecord, { columns }: Screen): string {
  const [verb, end] = CHOICES[choice];
  const rest = ` on ${visibleText(host)}${end}? [y/N]`;
  return `${verb} ${cut(quoteText(command), Math.max(8, columns - verb.length - rest.length - 1))}${rest}`;
}

/** A line that stays: the time, what happened, and the request. */
export function note(now: number, what: string, { command, host }: ApprovalRecord): string {
  const time = new Date(now).toISOString().slice(0, 19);
  return `${time}Z ${what} ${cut(quoteText(command), 40)} on ${host}`;
}

/** The beginning of a text of one line, with `…` for the rest. */
function cut(text: string, columns: number): string {
  const [first = "", ...others] = wrap(text, columns);
  return others.length === 0 ? first : `${wrap(text, columns - 2)[0]}…`;
}

/**
 * Lines of at most `columns` columns, without invisible characters. A line ends after a space if one is near. Characters
 * that are not ASCII count as two columns, because terminals differ and no part of a line may be lost.
 */
function wrap(text: string, columns: number): readonly string[] {
  const most = Math.max(1, columns - 1);
  const line = new RegExp(`.{1,${most}}$|.{${most >> 1},${most}}(?<= )|.{1,${most}}`, "gu");
  const lines = visibleText(text).replace(/[^ -~]/gu, "$&\0").match(line) ?? [""];
  return lines.map((each) => each.replaceAll("\0", ""));
}
