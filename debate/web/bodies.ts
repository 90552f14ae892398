import * as z from "@zod/zod";

const MAX_COMMENT = 20_000;
const MAX_TITLE = 200;
const MAX_CHANGES = 50;
const MAX_HYPOTHESIS = 2000;

export const approvalBody = z.object({
  call_id: z.string().describe("call_id of the event tool_approval_request"),
  approved: z.boolean(),
  for_run: z.boolean().default(false).describe(
    "for identical calls too; with `approved: false`, revokes that",
  ),
  args: z.record(z.string(), z.unknown()).optional().describe("replacement of the requested arguments"),
});

const id = z.string().min(1).max(80).describe("ID of the hypothesis");

export const commentBody = z.object({
  comment: z.string().max(MAX_COMMENT, `must not be longer than ${MAX_COMMENT} characters`).default(""),
  changes: z.array(z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("pin"), id }),
    z.object({ kind: z.literal("drop"), id }),
    z.object({ kind: z.literal("add"), text: z.string().trim().min(1).max(MAX_HYPOTHESIS) }),
  ])).max(MAX_CHANGES).default([]).describe("hypotheses to pin, drop or add"),
});

export const titleBody = z.object({
  title: z.string().max(MAX_TITLE, `must not be longer than ${MAX_TITLE} characters`),
});

/** Options of a run in progress. A missing option keeps its value. */
export const optionsBody = z.object({
  require_approval: z.boolean().nullish().describe("require approval for sensitive tools"),
  pause_between_rounds: z.boolean().nullish().describe("wait for a comment after each round"),
});

const MAX_TEMPLATE = 262_144;

export const previewBody = z.object({
  file: z.string().max(100).describe("file name, `name.language.yaml`"),
  text: z.string().max(MAX_TEMPLATE),
  topic: z.string().max(2000).default("…").describe("incident for the preview"),
});

/** A webhook of Alertmanager, Grafana or PagerDuty. {@linkcode readNotice} checks the rest. */
export const alertBody = z.looseObject({
  version: z.string().optional().describe("of Alertmanager: `4`"),
  groupKey: z.string().optional().describe("identifies the alert"),
  status: z.string().optional().describe("`firing` or `resolved`"),
  alerts: z.array(z.record(z.string(), z.unknown())).optional().describe("alerts of the group"),
  event: z.record(z.string(), z.unknown()).optional().describe("event of PagerDuty"),
});
