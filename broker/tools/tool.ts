import { AppError } from "@gateway/shared/errors";
import { MAX_REASON_CHARACTERS } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { AskHuman } from "../request/execute.ts";
import { quoteText } from "@gateway/shared/text";

/** On whose behalf a tool runs, and for how long it is wanted. */
export interface ToolContext {
  readonly caller: string;
  /** The caller's groups, where the frontend knows any. `null`: no filter by groups. */
  readonly callerGroups: readonly string[] | null;
  /** The caller's own token, where the frontend has one: a secret, for the signer and nobody else. */
  readonly bearerToken: string | undefined;
  readonly signal: AbortSignal;
  /** Absent where there is no human to ask. */
  readonly askHuman?: AskHuman;
  /** Tells the client what a long call is doing; absent when it does not want to know. */
  readonly onProgress?: (text: string) => void;
  /** Waits until an answer of so many characters may be held for the client; absent where nobody bounds that. */
  readonly holdAnswer?: (length: number, signal: AbortSignal) => Promise<void>;
}

/** What a request to the broker says about its caller, and with which it reports. */
type RequestCaller =
  & Pick<ToolContext, "caller" | "callerGroups" | "onProgress">
  & { readonly bearerToken?: string };

/** The argument with which a model says why; whoever has to approve the call reads it. */
export const reasonArgument: z.ZodOptional<z.ZodString> = z.string().refine(
  (text) => [...text].length <= MAX_REASON_CHARACTERS,
  `at most ${MAX_REASON_CHARACTERS} characters`,
).optional().describe(
  `Why, in a sentence or two for the human who may have to approve it; at most ${MAX_REASON_CHARACTERS} characters`,
);

/** The caller of a call, as the requests to the broker have it. */
export function callerOf({ caller, callerGroups, bearerToken, onProgress }: ToolContext): RequestCaller {
  return {
    caller,
    callerGroups,
    ...(bearerToken === undefined ? {} : { bearerToken }),
    ...(onProgress === undefined ? {} : { onProgress }),
  };
}

/** Whoever has a group list sees only what shares a group with it; an empty list sees nothing. */
export function isVisible(
  { groups = [] }: { readonly groups?: readonly string[] | undefined },
  callerGroups: readonly string[] | null,
): boolean {
  return callerGroups === null || groups.some((group) => callerGroups.includes(group));
}

/** What a tool gives back: a text for the model, and the same as an object of its output schema. */
export interface ToolResult {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
}

/** Hints for the client about what a tool does (MCP `ToolAnnotations`). */
interface ToolAnnotations {
  readonly readOnlyHint: boolean;
  /** It may undo or overwrite something. */
  readonly destructiveHint: boolean;
  /** Calling it again with the same arguments changes nothing more. */
  readonly idempotentHint: boolean;
  /** What it meets there is not this server's. */
  readonly openWorldHint: boolean;
}

/** A JSON Schema of an object, as `tools/list` shows it. */
type ObjectSchema = Readonly<Record<string, unknown>> & { readonly type: "object" };

/** A tool as a frontend serves it. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly inputSchema: ObjectSchema;
  readonly outputSchema: ObjectSchema;
  /**
   * Checks the arguments and runs the tool.
   *
   * @throws {AppError} whose message is the text of the tool error
   */
  call(args: unknown, context: ToolContext): Promise<ToolResult>;
}

/** A tool as its file writes it. */
interface ToolDefinition<Input> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly input: z.ZodType<Input>;
  readonly output: z.ZodType;
  /** The arguments that hold free text, checked before the handler sees them. */
  readonly guarded: readonly (keyof Input & string)[];
  readonly handle: (input: Input, context: ToolContext) => Promise<ToolResult>;
}

/** Makes a tool of its definition. */
export function defineTool<Input extends object>(definition: ToolDefinition<Input>): Tool {
  const { input, output, guarded, handle, ...shown } = definition;
  return {
    ...shown,
    inputSchema: toObjectSchema(input, "input"),
    outputSchema: toObjectSchema(output, "output"),
    async call(args, context) {
      const result = input.safeParse(args ?? {});
      if (!result.success) {
        throw new AppError("invalid_request", `validating "arguments": ${describeIssues(result.error)}`);
      }
      for (const field of guarded) guardInput(field, result.data[field]);
      return await handle(result.data, context);
    },
  };
}

function toObjectSchema(schema: z.ZodType, io: "input" | "output"): ObjectSchema {
  const json = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      // The one 64-bit type of the wire: an unsigned integer, exact in JSON text.
      if (zodSchema instanceof z.ZodBigInt) Object.assign(jsonSchema, { type: "integer", minimum: 0 });
      // The range of a JavaScript number is not a rule that a model has to read.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return { ...json, type: "object" };
}

function describeIssues(error: z.ZodError): string {
  return error.issues.map(({ path, message }) =>
    path.length === 0 ? message : `${path.join(".")}: ${message}`
  )
    .join("; ");
}

/** The longest argument, in bytes of UTF-8. */
export const MAX_FIELD_BYTES = 65536;

/**
 * Refuses a text that is too long or holds a NUL, which would end it early in C programs.
 *
 * @throws {AppError} `invalid_request`
 */
export function guardInput(field: string, value: unknown): void {
  if (typeof value !== "string") return;
  if (new TextEncoder().encode(value).length > MAX_FIELD_BYTES) {
    throw new AppError(
      "invalid_request",
      `field ${quoteText(field)} exceeds the limit of ${MAX_FIELD_BYTES} bytes`,
    );
  }
  if (value.includes("\0")) {
    throw new AppError("invalid_request", `field ${quoteText(field)} contains null bytes`);
  }
}

/** What bounds the use of the tools, as their broker is configured. */
export interface ToolLimits {
  /** The most that a result holds of stdout, and of stderr, in bytes. */
  readonly maxOutputBytes: number;
  /** The largest file, in bytes. */
  readonly maxFileBytes: number;
  /** The longest life of a certificate. */
  readonly maxTtlSeconds: number;
  /** How long a call waits for a human's approval; 0: not at all. */
  readonly approvalWaitSeconds: number;
  readonly sessionIdleSeconds: number;
  readonly sessionMaxSeconds: number;
}

/** What a result of the default settings may take as JSON, in bytes: some clients refuse, or hang up at, more. */
export const RESULT_BYTES = 1_048_576;

/** What the text block shows of a stream at most, in bytes of JSON: the text is for reading. */
export const READABLE_BYTES = 65_536;

/**
 * What both streams together may take in the structured content, in bytes of JSON. Quotes, line ends and controls are
 * longer there than on the host: a fifth is for them, what is beyond that is cut off.
 */
export function contentBudget({ maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">): number {
  return Math.floor(maxOutputBytes * 2.2);
}
