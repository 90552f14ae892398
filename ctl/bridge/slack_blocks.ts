import { formatDuration } from "@gateway/shared/text";
import { type Card, LEARN_TIMES, type Verb } from "./card.ts";

/** A part of a message, as Slack has them (Block Kit); only those that are used here. */
type Block = Readonly<Record<string, unknown>> & { readonly type: string };

/** Names of the actions: what else is clicked is none of the bridge's. */
export const ACTIONS = { approve: "gateway_approve", deny: "gateway_deny", learn: "gateway_learn" } as const;

/** Slack takes 3000 characters in a text; characters beyond the first plane count there as here. */
const LONGEST_TEXT = 2_900;

/** A text of others: as `plain_text` Slack neither looks for mentions, links or formats in it, nor for emoji. */
function plainText(text: string): Readonly<Record<string, unknown>> {
  return { type: "plain_text", text, emoji: false };
}

/** A text that Slack shows whole: by default it hides what is long behind "see more", and the buttons not. */
export function sectionOf(text: string): Block {
  return { type: "section", text: plainText(text), expand: true };
}

export function blocksOf(card: Card): readonly Block[] {
  return [
    { type: "header", text: plainText(card.title) },
    ...packLines(card.lines).map(sectionOf),
    ...(card.note === "" ? [] : [sectionOf(card.note)]),
    // A link is markup; the address is the operator's, with an id of hex digits.
    {
      type: "context",
      elements: [{ type: "mrkdwn", text: `<${card.page}|All of it, and what became of it>` }],
    },
    ...(card.verbs.length === 0 ? [] : [actionsOf(card)]),
  ];
}

/** What is shown where blocks are not, as in a notification: nothing of others, for it is read as markup. */
export function summaryOf(card: Card): string {
  return card.title;
}

function actionsOf({ approval, nonce, verbs }: Card): Block {
  const value = `${approval}.${nonce}`;
  const elements = {
    approve: {
      type: "button",
      action_id: ACTIONS.approve,
      style: "primary",
      text: plainText("Approve"),
      value,
    },
    deny: { type: "button", action_id: ACTIONS.deny, style: "danger", text: plainText("Deny"), value },
    learn: {
      type: "static_select",
      action_id: ACTIONS.learn,
      placeholder: plainText("Approve and learn for …"),
      options: LEARN_TIMES.map((seconds) => ({
        text: plainText(formatDuration(seconds * 1000)),
        value: `${value}.${seconds}`,
      })),
      confirm: {
        title: plainText("Approve and learn?"),
        text: plainText("Nobody is asked about the same again for that time."),
        confirm: plainText("Approve and learn"),
        deny: plainText("Back"),
      },
    },
  } as const satisfies Record<Verb["kind"], unknown>;
  return { type: "actions", block_id: `gateway_${approval}`, elements: verbs.map((verb) => elements[verb]) };
}

function packLines(lines: readonly string[]): readonly string[] {
  const texts: string[] = [];
  for (const line of lines) {
    const last = texts.at(-1);
    if (last !== undefined && last.length + line.length < LONGEST_TEXT) {
      texts[texts.length - 1] = `${last}\n${line}`;
    } else texts.push(line);
  }
  return texts;
}
