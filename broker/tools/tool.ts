import { Buffer } from "node:buffer";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { MAX_REASON_CHARACTERS } from "@gateway/shared/wire";
import * as z from "@zod/zod";
import type { Requester } from "../authority/authority.ts";
import type { AskHuman } from "../request/execute.ts";

export interface ToolContext extends Omit<Requester, "reason"> {
  readonly signal: AbortSignal;
  /** Absent if the broker cannot ask a human. */
  readonly askHuman?: AskHuman;
}

export const serverArgument = z.string().describe("Name from ssh_list_servers");

export const ttlArgument = z.int().optional().describe("Default: the host's maximum");

export const reasonArgument: z.ZodOptional<z.ZodString> = z.string().refine(
  (text) => [...text].length <= MAX_REASON_CHARACTERS,
  `at most ${MAX_REASON_CHARACTERS} characters`,
).optional().describe("For the human approver");

export function callerOf({ caller, callerGroups, bearerToken, onProgress }: ToolContext) {
  return { caller, callerGroups, bearerToken, onProgress };
}

/**
 * The hosts or clusters that a caller sees, by name. A caller with a list of groups sees only items that share a group
 * with the list. An empty list sees nothing.
 */
export function visibleTo<Item extends { readonly groups?: readonly string[] | undefined }>(
  callerGroups: readonly string[] | null,
  items: ReadonlyMap<string, Item>,
): readonly [string, Item][] {
  return [...items]
    .filter(([, { groups = [] }]) =>
      callerGroups === null || groups.some((group) => callerGroups.includes(group))
    )
    .sort(([left], [right]) => left < right ? -1 : 1);
}

/** A text for the model, and the same facts as an object of the tool's output schema. */
export interface ToolResult {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
}

type Annotations = Readonly<
  Record<"readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint", boolean>
>;

/** The MCP annotations of a tool that runs commands or changes objects. */
export const CHANGE: Annotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};
/** The MCP annotations of a tool that reads from a server or cluster. */
export const READ: Annotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: true,
};

type ObjectSchema = Readonly<Record<string, unknown>> & { readonly type: "object" };

/** A tool in the form that a frontend serves. */
export interface Tool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: Annotations;
  readonly inputSchema: ObjectSchema;
  readonly outputSchema: ObjectSchema;
  /**
   * Checks the arguments and runs the tool.
   * @throws {AppError} whose message is the text of the tool error
   */
  call(args: unknown, context: ToolContext): Promise<ToolResult>;
}

/** Arguments with separate limits. */
const OWN_LIMITS = ["content", "reason", "pod"];

export function defineTool<Input extends object>(
  { input, output, handle, ...shown }: Omit<Tool, "inputSchema" | "outputSchema" | "call"> & {
    readonly input: z.ZodType<Input>;
    readonly output: z.ZodType;
    readonly handle: (input: Input, context: ToolContext) => Promise<ToolResult>;
  },
): Tool {
  return {
    ...shown,
    inputSchema: toObjectSchema(input, "input"),
    outputSchema: toObjectSchema(output, "output"),
    async call(args, context) {
      const result = input.safeParse(args ?? {});
      if (!result.success) {
        const issues = result.error.issues.map(({ path, message }) =>
          path.length === 0 ? message : `${path.join(".")}: ${message}`
        );
        throw new AppError("invalid_request", `validating "arguments": ${issues.join("; ")}`);
      }
      for (const [field, value] of Object.entries(result.data)) {
        if (!OWN_LIMITS.includes(field)) guardInput(field, value);
      }
      return await handle(result.data, context);
    },
  };
}

function toObjectSchema(schema: z.ZodType, io: "input" | "output"): ObjectSchema {
  const json = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      // Serials are the only 64-bit numbers of the wire: unsigned integers, exact in JSON text.
      if (zodSchema instanceof z.ZodBigInt) Object.assign(jsonSchema, { type: "integer", minimum: 0 });
      // A model does not need the range of JavaScript numbers.
      if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
      if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
    },
  });
  return { ...json, type: "object" };
}

export const MAX_FIELD_BYTES = 65536;

/**
 * Rejects a text that is too long or holds a NUL, which would end the text early in C programs.
 * @throws {AppError} `invalid_request`
 */
export function guardInput(field: string, value: unknown): void {
  if (typeof value !== "string") return;
  const problem = Buffer.byteLength(value) > MAX_FIELD_BYTES
    ? `exceeds the limit of ${MAX_FIELD_BYTES} bytes`
    : value.includes("\0")
    ? "contains null bytes"
    : undefined;
  if (problem !== undefined) throw new AppError("invalid_request", `field ${quoteText(field)} ${problem}`);
}

export interface ToolLimits {
  /** The most bytes of stdout, and of stderr, in a result. */
  readonly maxOutputBytes: number;
  readonly maxFileBytes: number;
  readonly maxTtlSeconds: number;
  /** 0: a call does not wait for a human's approval. */
  readonly approvalWaitSeconds: number;
  readonly sessionIdleSeconds: number;
  readonly sessionMaxSeconds: number;
}

/** The largest result of the default settings, in bytes of JSON: some clients reject more or disconnect. */
export const RESULT_BYTES = 1_048_576;

/** The most bytes of JSON that the text block shows of a stream: the text is for reading. */
export const READABLE_BYTES = 65_536;

/**
 * The most bytes of JSON for both streams together in the structured content. Quotes, line ends and control characters
 * are longer there than on the host, so a fifth is added.
 */
export function contentBudget({ maxOutputBytes }: Pick<ToolLimits, "maxOutputBytes">): number {
  return Math.floor(maxOutputBytes * 2.2);
}
