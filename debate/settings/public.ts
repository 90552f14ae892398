import type * as z from "@zod/zod";
import { settingsSchema as schema } from "./config.ts";

/** The schema for CONFIG.md. Its inferred type stays inside, because a published type must be spelled out. */
export const settingsSchema: z.ZodType = schema;
