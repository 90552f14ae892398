import * as z from "@zod/zod";
import { LEARN_TIMES, type Verb } from "./card.ts";
import type { Click } from "./chat.ts";
import { ACTIONS } from "./slack_blocks.ts";

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

/** The click that an envelope brings; `undefined` for everything else, what other workspaces and channels bring included. */
export function readSlackClick(
  payload: unknown,
  { team, channel }: { readonly team: string; readonly channel: string },
): Click | undefined {
  const { data } = blockActions.safeParse(payload);
  const [action] = data?.actions ?? [];
  if (data === undefined || action === undefined) return undefined;
  const { user, container } = data;
  // Slack Connect shows a channel to people of other workspaces.
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
  switch (action) {
    case ACTIONS.approve:
      return { kind: "approve" };
    case ACTIONS.deny:
      return { kind: "deny" };
    case ACTIONS.learn:
      return LEARN_TIMES.includes(ttlSeconds) ? { kind: "learn", ttlSeconds } : undefined;
    default:
      return undefined;
  }
}
