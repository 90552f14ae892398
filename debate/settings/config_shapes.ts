/**
 * The kinds of values that settings have.
 *
 * @module
 */
import * as z from "@zod/zod";

/** Any text; empty by default. */
export const text = (meaning: string): z.ZodDefault<z.ZodString> => z.string().default("").describe(meaning);

/** Yes or no. */
export const flag = (fallback: boolean, meaning: string): z.ZodDefault<z.ZodBoolean> =>
  z.boolean().default(fallback).describe(meaning);

export const whole = (min: number, max: number, fallback: number, meaning: string): z.ZodDefault<z.ZodInt> =>
  z.int().min(min).max(max).default(fallback).describe(meaning);

/** A number from 0 to 1. */
export const share = (fallback: number, meaning: string): z.ZodDefault<z.ZodNumber> =>
  z.number().min(0).max(1).default(fallback).describe(meaning);

export const list = (meaning: string, fallback: string[] = []): z.ZodDefault<z.ZodArray<z.ZodString>> =>
  z.array(z.string()).default(fallback).describe(`${meaning}; comma-separated`);

export const model = (fallback: string, meaning: string): z.ZodDefault<z.ZodString> =>
  z.string().regex(/^(?:hub|assist|replay)\/./, "must be hub/<name>, assist/<name> or replay/<scenario>")
    .default(fallback).describe(meaning);

/** A URL of the web; may be empty. */
export const url = (meaning: string): z.ZodDefault<z.ZodString> =>
  z.string().refine((value) => value === "" || isHttpUrl(value), "must be an http: or https: URL")
    .default("").describe(meaning);

/** A URL to which a long-lived token is sent; may be empty. */
export const safeUrl = (meaning: string): z.ZodDefault<z.ZodString> =>
  z.string().refine(
    (value) => value === "" || isSafeUrl(value),
    "must be an https: URL, or http: on loopback",
  )
    .default("").describe(meaning);

const EFFORTS = ["none", "low", "medium", "high"] as const;

/** How hard a model is asked to think. */
export const effort = (role: string): z.ZodType<(typeof EFFORTS)[number]> =>
  z.enum(EFFORTS).default("none").describe(`how hard the ${role} is asked to think`);

/** Whether a text is a URL of the web. */
export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value);
}

/** Whether nobody on the way can read what is sent to a URL of the web. */
export function isSafeUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false;
  const { protocol, hostname } = new URL(value);
  return protocol === "https:" || /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}
