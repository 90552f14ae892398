import { AppError } from "@gateway/shared/errors";
import * as z from "@zod/zod";

export const PROTOCOLS = ["openai", "openai-responses", "anthropic"] as const;

/** The providers without an entry in MODEL_PROVIDERS. `replay` plays scripts. */
const FIXED = ["hub", "assist", "replay"] as const;

/** The key variables of vendors that MODEL_PROVIDERS may name. `*` stands for any end of a name. */
export const KEY_VARIABLES: readonly string[] = [
  "ANTHROPIC_API_KEY",
  "AZURE_OPENAI_API_KEY",
  "GEMINI_API_KEY",
  "MODEL_KEY_*",
  "OPENAI_API_KEY",
  "VLLM_API_KEY",
];

const HEADER = /^[\w-]{1,64}$/;

export const headers: z.ZodType<Readonly<Record<string, string>>> = z.record(
  z.string().regex(HEADER, "must be the name of a header"),
  z.string().regex(/^[\x20-\x7e]{0,4096}$/, "must be one line of ASCII text"),
);

/** A provider in MODEL_PROVIDERS. */
const provider = z.strictObject({
  protocol: z.enum(PROTOCOLS).default("openai"),
  base_url: z.string().refine(isBaseUrl, "must be an http: or https: URL without user name, ? and #"),
  // The permission sets allow only these variables. A free name could send any secret of the environment.
  key_variable: z.string().refine(
    isKeyVariable,
    `must be ${KEY_VARIABLES.join(", ")}; the program may read no other variables`,
  ).exactOptional(),
  key_header: z.string().regex(HEADER, "must be the name of a header").exactOptional(),
  headers: headers.default({}),
  api_version: z.string().regex(/^[\w.-]{1,40}$/, "must be a version").exactOptional(),
});

export type ModelProvider = Readonly<z.infer<typeof provider>>;

export const modelProviders: z.ZodType<Readonly<Record<string, ModelProvider>>> = z.record(
  z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, "must have lower-case letters, digits, - and _").refine(
    (name) => FIXED.every((each) => each !== name),
    "is the name of a built-in provider",
  ),
  provider,
);

export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && URL.canParse(value);
}

/** Whether the request to a URL is encrypted, or stays on this machine. */
export function isSafeUrl(value: string): boolean {
  if (!isHttpUrl(value)) return false;
  const { protocol, hostname } = new URL(value);
  return protocol === "https:" || /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname);
}

function isBaseUrl(value: string): boolean {
  return isHttpUrl(value) && !/[?#]/.test(value) && new URL(value).username === "" &&
    new URL(value).password === "";
}

function isKeyVariable(name: string): boolean {
  return KEY_VARIABLES.some((known) =>
    known.endsWith("*") ? /^\w{1,64}$/.test(name) && name.startsWith(known.slice(0, -1)) : known === name
  );
}

interface ModelId {
  readonly provider: string;
  readonly name: string;
}

/** The parts of a model ID; `undefined` if its prefix is neither a built-in provider nor one of `names`. */
export function splitModelId(id: string, names: readonly string[]): ModelId | undefined {
  const [, provider = "", name = ""] = /^([\w-]+)\/([\x21-\x7e]{1,200})$/.exec(id) ?? [];
  return [...names, ...FIXED].includes(provider) ? { provider, name } : undefined;
}

/** @throws {AppError} `invalid_request` for another ID */
export function parseModelId(id: string, names: readonly string[]): ModelId {
  const found = splitModelId(id, names);
  if (found !== undefined) return found;
  const text = `Cannot use model ${JSON.stringify(id.slice(0, 100))}: it ${describeModelIds(names)}`;
  throw new AppError("invalid_request", text);
}

export function describeModelIds(names: readonly string[]): string {
  const forms = [...names, "hub", "assist"].map((each) => `${each}/<name>`).join(", ");
  return `must be ${forms} or replay/<scenario>; MODEL_PROVIDERS adds providers`;
}
