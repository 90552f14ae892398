import * as z from "@zod/zod";
import { formatDuration } from "@gateway/shared/text";
import { type Card, LEARN_TIMES, type Verb } from "./card.ts";
import type { Click } from "./chat.ts";

/** A part of a message (Block Kit). */
type Block = Readonly<Record<string, unknown>> & { readonly type: string };

const ACTIONS = { approve: "gateway_approve", deny: "gateway_deny", learn: "gateway_learn" } as const;

/** Slack accepts 3000 UTF-16 units. */
const LONGEST_TEXT = 2_900;

/** Foreign text must be `plain_text`: Slack then interprets no mentions, links, formats or emoji. */
function plainText(text: string): Readonly<Record<string, unknown>> {
  return { type: "plain_text", text, emoji: false };
}

/** By default, Slack hides the end of a long text behind "see more", but not the buttons. */
export function sectionOf(text: string): Block {
  return { type: "section", text: plainText(text), expand: true };
}

export function blocksOf(card: Card): readonly Block[] {
  return [
    { type: "header", text: plainText(card.title) },
    ...packLines(card.lines).map(sectionOf),
    ...(card.note === "" ? [] : [sectionOf(card.note)]),
    // Markup is safe here, because the address comes from the operator and the ID consists of hex digits.
    { type: "context", elements: [{ type: "mrkdwn", text: `<${card.page}|Open the request>` }] },
    ...(card.verbs.length === 0 ? [] : [actionsOf(card)]),
  ];
}

/** Shown instead of blocks, as in a notification. Slack reads it as markup, so it has no foreign text. */
export function summaryOf(card: Card): string {
  return card.title;
}

function actionsOf({ approval, nonce, verbs }: Card): Block {
  const value = `${approval}.${nonce}`;
  const element = (type: string, verb: Verb["kind"]) => ({ type, action_id: ACTIONS[verb] });
  const elements = {
    approve: { ...element("button", "approve"), style: "primary", text: plainText("Approve"), value },
    deny: { ...element("button", "deny"), style: "danger", text: plainText("Deny"), value },
    learn: {
      ...element("static_select", "learn"),
      placeholder: plainText("Approve and learn for …"),
      options: LEARN_TIMES.map((seconds) => ({
        text: plainText(formatDuration(seconds * 1000)),
        value: `${value}.${seconds}`,
      })),
      confirm: {
        title: plainText("Approve and learn?"),
        text: plainText("Identical requests will be approved automatically for this time."),
        confirm: plainText("Approve and learn"),
        deny: plainText("Back"),
      },
    },
  };
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

const id = z.string().regex(/^[A-Z0-9]{1,40}$/);
const text = z.string().max(300);

const blockActions = z.object({
  type: z.literal("block_actions"),
  team: z.object({ id }),
  user: z.object({ id, team_id: id.optional() }),
  container: z.object({ type: z.literal("message"), message_ts: text, channel_id: id }),
  actions: z.array(z.object({
    action_id: text,
    action_ts: text,
    value: text.optional(),
    selected_option: z.object({ value: text }).nullish(),
  })).length(1),
});

/** The click in an event; `undefined` for other events and for other workspaces and channels. */
export function readSlackClick(
  payload: unknown,
  { team, channel }: { readonly team: string; readonly channel: string },
): Click | undefined {
  const { data } = blockActions.safeParse(payload);
  const [action] = data?.actions ?? [];
  if (data === undefined || action === undefined) return undefined;
  const { user, container } = data;
  // With Slack Connect, people of other workspaces can use the channel.
  const isForeign = data.team.id !== team || (user.team_id ?? team) !== team;
  if (isForeign || container.channel_id !== channel) return undefined;
  const value = action.selected_option?.value ?? action.value ?? "";
  const [, nonce = "", seconds = ""] = value.split(".");
  const verb = verbOf(action.action_id, Number(seconds));
  if (verb === undefined || nonce === "") return undefined;
  return {
    key: `${container.message_ts} ${user.id} ${action.action_id} ${action.action_ts}`,
    message: container.message_ts,
    nonce,
    user: user.id,
    verb,
  };
}

function verbOf(action: string, ttlSeconds: number): Verb | undefined {
  if (action === ACTIONS.approve) return { kind: "approve" };
  if (action === ACTIONS.deny) return { kind: "deny" };
  return action === ACTIONS.learn && LEARN_TIMES.includes(ttlSeconds)
    ? { kind: "learn", ttlSeconds }
    : undefined;
}
