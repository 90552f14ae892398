/** The schemas of JSON answers, for `GET /api/openapi.json`. A test compares them with the answers of the handlers. */
import * as z from "@zod/zod";
import { RUN_MODES } from "../engine/ports.ts";
import { listItemSchema, RUN_SCHEMA } from "../runs/record.ts";

const text = z.string();
const maybe = text.nullable();
const share = z.number().min(0).max(1);

const settings = z.object({
  ...{ diagnostic_model: text, skeptic_model: text, moderator_model: text, summary_model: text },
  ...{ diagnostic_reasoning_effort: text, skeptic_reasoning_effort: text, moderator_reasoning_effort: text },
  ...{ mode: z.enum(RUN_MODES), samples: z.int(), max_rounds: z.int() },
  ...{ confidence_threshold: share, early_out_threshold: share },
  ...{ prompt_template: text, prompt_language: text },
  ...{ tool_approval_required: z.boolean(), compress_history: z.boolean() },
  sandbox_problem: maybe.describe("reason why programs of tools run without a sandbox"),
  ...{ approval_timeout_seconds: z.int(), comment_timeout_seconds: z.int(), max_upload_bytes: z.int() },
  builtin_incident: z.object({ topic: text, model: text }),
  tools: z.array(z.object({
    ...{ name: text, description: text, available: z.boolean() },
    why: maybe.describe("the reason if the tool is off"),
    needs_approval: z.boolean(),
  })),
  providers: z.array(z.object({
    ...{ name: text, protocol: text, configured: z.boolean() },
    missing: z.array(text).describe("variables that are not set"),
    login: z.boolean().describe("whether a login is possible"),
  })),
});

const source = z.enum(["builtin", "custom"]);
const template = z.object({ name: text, language: text, version: z.int(), description: text, source });
const message = z.object({ role: z.enum(["system", "user", "assistant", "tool"]), content: text });
const price = z.object({ input: z.number(), output: z.number() }).describe("US dollars per million tokens");

const login = z.object({
  ...{ device_code: text, user_code: text, verification_uri: text, ghu_token: z.null() },
  ...{ interval: z.number(), expires_in: z.number() },
}).partial().extend({
  status: z.enum(["pending", "authorized", "denied", "expired", "error"]),
  error: text.optional(),
  last_error: maybe,
});

const alert = z.object({
  ...{ id: text, source: text, title: text, severity: text, since: text, received_at: text, count: z.int() },
  answer: z.enum(["waiting", "sent", "failed", "off"]).describe("state of the answer in the chat"),
  status: maybe.describe("status of the run"),
  outcome: maybe.describe("outcome of the run"),
  ...{ run_id: maybe, url: maybe },
});

export const ANSWERS = {
  openApi: z.looseObject({ openapi: text, paths: z.looseObject({}) }),
  schema: z.looseObject({ $schema: text }),
  settings,
  templates: z.object({ templates: z.array(template) }),
  template: z.object({ file: text, source, text }),
  preview: z.object({
    problem: maybe,
    prompts: z.array(z.object({ node: text, messages: z.array(message) })),
  }),
  models: z.object({
    models: z.array(z.object({ id: text, name: text, provider: text, price: price.nullable() })),
    problems: z.array(z.object({ provider: text, message: text })),
  }),
  authStatus: z.object({
    ...{ copilot_configured: z.boolean(), copilot_token_preview: maybe, copilot_session_valid: z.boolean() },
    copilot_session_expires_in_seconds: z.number().nullable(),
    ...{ github_models_configured: z.boolean(), github_models_token_preview: maybe, last_error: maybe },
    missing_settings: z.array(text),
  }),
  login,
  alerts: z.object({ alerts: z.array(alert) }),
  received: z.object({
    status: z.enum(["accepted", "joined", "closed", "ignored"]),
    ...{ alert_id: maybe, run_id: maybe, url: maybe },
  }),
  runs: z.object({
    runs: z.array(listItemSchema.extend({ waits_for: z.enum(["approval", "comment"]).nullable() })),
  }),
  started: z.object({ run_id: text }),
  run: RUN_SCHEMA,
  deleted: z.object({ status: z.enum(["deleted", "cancelling"]) }),
  ok: z.object({ status: z.literal("ok") }),
  options: z.object({
    status: z.literal("ok"),
    ...{ require_approval: z.boolean(), pause_between_rounds: z.boolean() },
  }),
};

/** The JSON schema of a body. It allows unknown members, because later versions may add some. */
export function toJsonSchema(schema: z.ZodType, io: "input" | "output" = "input"): object {
  const { $schema: _, ...shape } = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema }) => {
      const { additionalProperties: others, properties = {}, required } = jsonSchema;
      if (others === false) delete jsonSchema.additionalProperties;
      // Readers replace an absent member by its default.
      const isNeeded = (name: string) => !Object.hasOwn(Object(properties[name]), "default");
      if (io === "input" && required !== undefined) jsonSchema.required = required.filter(isNeeded);
    },
  });
  return shape;
}
