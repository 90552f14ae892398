/** What a process may do, as its command line or its executable says, beside what its config calls for. */
import { Buffer } from "node:buffer";
import { normalize } from "node:path";
import { parseStandardJson } from "@gateway/shared/json";

/** What one flag grants: everything of its kind, or these values. */
type Values = "all" | readonly string[];

export interface Granted {
  /** By the name of the flag, `--allow-read`. */
  readonly flags: ReadonlyMap<string, Values>;
  /** The name of a set in a `deno.json` that grants more, which can't be read from here. */
  readonly set?: string;
}

/** What it has and should not, and what it should have and has not; flags as `deno run` takes them. */
interface Difference {
  readonly more: readonly string[];
  readonly less: readonly string[];
}

const SHORT: Readonly<Record<string, string>> = {
  "-A": "--allow-all",
  "-R": "--allow-read",
  "-W": "--allow-write",
  "-N": "--allow-net",
  "-E": "--allow-env",
  "-S": "--allow-sys",
  "-I": "--allow-import",
  "-P": "--permission-set",
  "-q": "--quiet",
};
const NEUTRAL = new Set([
  ...["--quiet", "--no-code-cache", "--v8-flags", "--no-check", "--no-lock", "--frozen", "--no-remote"],
  ...["--no-npm", "--no-config", "--config", "-c", "--ignore-env"],
]);
/** Without them a process asks a terminal for more, and fetches code over the network whatever it may connect to. */
const BOUNDS = ["--no-prompt", "--cached-only"];

/**
 * Reads flags of `deno run`. A word that is none of its flags is one all the same: whoever compares finds it too much.
 *
 * @param words each begins with `-`
 */
export function readFlags(words: readonly string[]): Granted {
  const flags = new Map<string, Values>();
  let set: string | undefined;
  for (const word of words) {
    const [, head = "", value] = /^([^=\s]*)(?:[=\s](.*))?$/s.exec(word) ?? [];
    const name = SHORT[head] ?? head;
    if (name === "--permission-set") set = value ?? "default";
    else if (value === undefined || flags.get(name) === "all") flags.set(name, "all");
    else flags.set(name, [...flags.get(name) ?? [], ...value.split(",")]);
  }
  return { flags, ...(set !== undefined && { set }) };
}

const KEY = '"permissions":';
/**
 * What `deno compile` writes into an executable: `null` means nothing, `[]` everything of a kind. In two parts, for this
 * module is in an executable too.
 */
const EMBEDDED = new TextEncoder().encode(`${KEY}{"allow_env"`);

/** Reads what an executable of `deno compile` may do; undefined for what is none. */
export function readEmbedded(bytes: Uint8Array): Granted | undefined {
  const at = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).lastIndexOf(EMBEDDED);
  if (at < 0) return undefined;
  const from = at + KEY.length;
  const end = bytes.indexOf("}".charCodeAt(0), from);
  const flags = new Map<string, Values>(BOUNDS.map((flag) => [flag, "all"]));
  try {
    const json = parseStandardJson(new TextDecoder().decode(bytes.subarray(from, end + 1)));
    for (const [key, value] of Object.entries(json as Readonly<Record<string, unknown>>)) {
      // Deno's default; an executable imports nothing but what is in it.
      if (key === "allow_import") continue;
      const name = `--${key.replaceAll("_", "-")}`;
      if (key === "prompt" && value !== false) flags.delete("--no-prompt");
      else if (value === true) flags.set(name, "all");
      else if (Array.isArray(value)) flags.set(name, value.length === 0 ? "all" : value.map(String));
    }
  } catch {
    return undefined;
  }
  return { flags };
}

/** What a process has beside what is derived from its config. */
export function compareGranted({ flags: has }: Granted, { flags: wanted }: Granted): Difference {
  const more = BOUNDS.filter((flag) => !has.has(flag)).map((flag) => `no ${flag}`);
  const less: string[] = [];
  for (const name of new Set([...has.keys(), ...wanted.keys()])) {
    if (NEUTRAL.has(name) || BOUNDS.includes(name)) continue;
    const extra = format(name, without(name, has.get(name), wanted.get(name)));
    const missing = format(name, without(name, wanted.get(name), has.get(name)));
    const isDenial = name.startsWith("--deny-");
    if (extra !== undefined) (isDenial ? less : more).push(extra);
    if (missing !== undefined) (isDenial ? more : less).push(isDenial ? `no ${missing}` : missing);
  }
  // Whoever may do everything lacks nothing.
  return { more, less: has.has("--allow-all") ? [] : less };
}

/** Those values that others do not cover; undefined: none. */
function without(name: string, values: Values | undefined, others: Values = []): Values | undefined {
  if (values === undefined || others === "all") return undefined;
  if (values === "all") return "all";
  const isFiles = /-(?:read|write)$/.test(name);
  const left = values.filter((value) =>
    !others.some((other) => other === value || (isFiles && isBelow(normalize(value), normalize(other))))
  );
  return left.length === 0 ? undefined : left;
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

/** So many values are shown of a longer list. */
const SHOWN = 3;

function format(name: string, values: Values | undefined): string | undefined {
  if (values === undefined) return undefined;
  if (values === "all") return name;
  const rest = values.length > SHOWN ? ` and ${values.length - SHOWN} more` : "";
  return `${name}=${values.slice(0, SHOWN).join(",")}${rest}`;
}
