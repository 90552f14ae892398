import * as z from "@zod/zod";

const PROTOCOLS = ["openai", "openai-responses", "anthropic"] as const;

export type Protocol = (typeof PROTOCOLS)[number];

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

const headerName = z.string().regex(/^[\w-]{1,64}$/, "must be the name of a header");

export const headers: z.ZodType<Readonly<Record<string, string>>> = z.record(
  headerName,
  z.string().regex(/^[\x20-\x7e]{0,4096}$/, "must be one line of ASCII text"),
);

/** A provider in MODEL_PROVIDERS. */
const provider = z.strictObject({
  protocol: z.enum(PROTOCOLS).default("openai").describe("protocol; `openai` is chat completions"),
  base_url: z.string().refine(isBaseUrl, "must be an http: or https: URL without @, ? and #").describe(
    "URL above `/chat/completions`, `/responses` or `/messages`",
  ),
  // The permission sets allow only these variables. A free name could send any secret of the environment.
  key_variable: z.string().regex(
    new RegExp(`^(?:${KEY_VARIABLES.join("|").replace("*", "\\w{1,64}")})$`),
    `must be one of ${KEY_VARIABLES.join(", ")}: the permission sets allow no other variables`,
  ).describe("variable with the key; absent: no key is sent").exactOptional(),
  key_header: headerName.describe("header for the key").exactOptional(),
  headers: headers.default({}).describe("further headers, without keys"),
  api_version: z.string().regex(/^[\w.-]{1,40}$/, "must be a version")
    .describe("version of the API of Azure or Anthropic").exactOptional(),
});

export type ModelProvider = Readonly<z.infer<typeof provider>>;

export const modelProviders: z.ZodType<Readonly<Record<string, ModelProvider>>> = z.record(
  z.string().regex(
    /^(?!(?:hub|assist|replay)$)[a-z][a-z0-9_-]{0,31}$/,
    `the name must have a-z, 0-9, - and _, and not be ${FIXED.join(", ")}`,
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
  return isHttpUrl(value) && !/[?#]/.test(value) && !/@/.test(new URL(value).href);
}

/** The parts of a model ID; `undefined` if its prefix is neither a built-in provider nor one of `names`. */
export function splitModelId(id: string, names: readonly string[]) {
  const [, provider = "", name = ""] = /^([\w-]+)\/([\x21-\x7e]{1,200})$/.exec(id) ?? [];
  return [...names, ...FIXED].includes(provider) ? { provider, name } : undefined;
}

export function describeModelIds(names: readonly string[]): string {
  const forms = [...names, "hub", "assist"].map((each) => `${each}/<name>`).join(", ");
  return `must be ${forms} or replay/<scenario>; MODEL_PROVIDERS adds providers`;
}
