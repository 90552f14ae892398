import type * as z from "@zod/zod";
import { settingsSchema as schema } from "./config.ts";

/** The schema for the reference page, with an explicit type, because JSR rejects inferred types of exports. */
export const settingsSchema: z.ZodType = schema;
