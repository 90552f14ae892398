/**
 * The `redact` block of a service's config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { redactConfig } from "@gateway/shared/redact/model";
 *
 * assert.equal(redactConfig.safeParse({ patterns: [{ name: "ticket", regex: "T-[0-9]+" }] }).success, true);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";

/** A rule of the operator, applied after the built-in ones. */
export interface RedactPattern {
  /** Shown in the mark `[REDACTED:<name>]`. */
  readonly name: string;
  /** RE2; when it has a group named `secret`, only that group is masked. */
  readonly regex: string;
}

/** The block; absent means the built-in rules alone. */
export interface RedactConfig {
  /** Applied after the built-in rules, in this order. */
  readonly patterns?: readonly RedactPattern[];
  /** True turns the built-in rules off. */
  readonly disable_defaults?: boolean;
}

/** Checks a {@linkcode RedactConfig}; unknown keys are refused. */
export const redactConfig: z.ZodType<RedactConfig> = z.strictObject({
  patterns: z.array(z.strictObject({
    name: z.string().regex(/^[a-zA-Z0-9._-]{1,64}$/, "must be 1 to 64 of a-z A-Z 0-9 . _ -")
      .describe("shown in the mark [REDACTED:<name>]"),
    regex: z.string().min(1).describe("RE2 pattern; a group named secret limits what is masked"),
  })).exactOptional().describe("rules applied after the built-in ones"),
  disable_defaults: z.boolean().exactOptional().describe("true turns the built-in rules off"),
});
