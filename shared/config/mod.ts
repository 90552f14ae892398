/**
 * Config files: loading, checking, editing, reference pages.
 *
 * @module
 */

import * as z from "@zod/zod";
import { type AppError, configError } from "../errors.ts";
import { describeReadFailure, readRegularFile } from "../files/mod.ts";
import { isObject } from "../json.ts";
import { formatKeyPath, type KeyPath } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import {
  type ConfigObject,
  createConfigObject,
  describeIssue,
  mapValues,
  nearMiss,
  type Shape,
  shapeAt,
  shapeOf,
  withoutComments,
} from "./problems.ts";
import { LargeMap, parseJsonc, type WrittenMap } from "./jsonc.ts";

export { nearMiss };
export { appendToList, locate, removeFromList, removeMember, setValue, type ValuePath } from "./edit.ts";

/** The kind and rules of a config. */
export interface ConfigKind<T extends object> {
  /** The kind of config in messages: `signer config`. */
  readonly what: string;
  readonly schema: z.ZodType<T>;
  /** Rejected keys of the specification, as dotted paths. `*` means any key of a map (`hosts.*.sealed_exec`). */
  readonly unsupported?: readonly string[];
  /**
   * Maps at the top that may be very large, each with its schema. They are checked entry by entry, so they need a
   * default, and cannot have a rule about several entries.
   */
  readonly large?: Readonly<Record<string, z.ZodType>>;
}

interface ConfigText<T extends object> extends ConfigKind<T> {
  readonly text: string;
  /** The file in messages. */
  readonly source: string;
  /** The replaced config: unchanged entries of large maps are reused. */
  readonly previous?: T | undefined;
}

/**
 * Checks the text of a config and returns it with its defaults. Its objects have no prototype, so that a name from the
 * network finds only keys of the operator.
 *
 * @throws {AppError} `invalid_config` with every problem and its key path
 */
export function parseConfig<T extends object>(config: ConfigText<T>): T {
  return finish(parseConfigSteps(config));
}

/** {@linkcode parseConfig} in steps, for a service that answers requests in the meantime. */
export function* parseConfigSteps<T extends object>(config: ConfigText<T>): Steps<T> {
  const { text, schema, previous } = config;
  const checks = { ...config, shape: shapeOf(schema), problems: [] };
  const before = previous && WRITTEN.get(previous);
  const inMaps: string[] = [];
  const large = new Map(
    Object.entries(config.large ?? {}).map(([key, ofMap]) => {
      const inMap = { ...checks, schema: z.strictObject({ [key]: ofMap }), problems: inMaps };
      const checkEntry = (name: string, entry: unknown) => checkOne(inMap, key, name, entry);
      const known = before?.schema === schema ? before.maps.get(key) : undefined;
      return [key, new LargeMap({ text, check: checkEntry, before: known })];
    }),
  );
  const parsed = yield* parseJsonc(text, large);
  if (parsed.kind === "malformed") throw invalid(config, [parsed.problem]);
  const head = check(checks, parsed.value);
  const problems = [...parsed.problems, ...checks.problems, ...inMaps];
  if (problems.length > 0 || head === undefined) throw invalid(config, problems);
  const maps = new Map<string, WrittenMap>();
  for (const [key, { written }] of large) {
    if (written === undefined) continue;
    maps.set(key, written);
    Object.assign(head, { [key]: written.entries });
  }
  if (maps.size > 0) WRITTEN.set(head, { schema, maps });
  return head;
}

/** The texts of the large maps of configs. */
const WRITTEN = new WeakMap<
  object,
  { readonly schema: z.ZodType; readonly maps: ReadonlyMap<string, WrittenMap> }
>();

interface Checks<T extends object> extends ConfigKind<T> {
  readonly shape: Shape;
  readonly problems: string[];
}

/** Checks one entry of a map. @returns the map with this entry, or empty after problems */
function checkOne(
  checks: Checks<Record<string, unknown>>,
  key: string,
  name: string,
  entry: unknown,
): ConfigObject {
  const part = createConfigObject();
  part[name] = entry;
  const checked = check(checks, { [key]: part })?.[key];
  return isObject(checked) ? checked : createConfigObject();
}

/** A config, or a part of one, with defaults; `undefined` after problems. */
function check<T extends object>({ schema, shape, unsupported, problems }: Checks<T>, written: ConfigObject) {
  const value = withoutNullBlocks(withoutComments(written, shape), shape);
  for (const key of unsupported ?? []) problems.push(...takeUnsupported(value, key.split("."), []));
  const result = schema.safeParse(value);
  if (result.success) {
    withoutPrototypes(result.data);
    return result.data;
  }
  problems.push(...result.error.issues.flatMap((issue) => describeIssue(issue, value, shape)));
  return undefined;
}

/**
 * Removes optional blocks at the top that are `null`. A `null` further down is rejected: for example, a host
 * with `"command_policy": null` could otherwise have no rules by mistake.
 */
function withoutNullBlocks(value: ConfigObject, shape: Shape): ConfigObject {
  const copy = createConfigObject();
  for (const [key, member] of Object.entries(value)) {
    const isBlock = shapeAt(shape, [key])?.properties !== undefined;
    if (member === null && isBlock && shape.required?.includes(key) !== true) continue;
    copy[key] = member;
  }
  return copy;
}

/** Reads and checks a config file. @throws {AppError} `invalid_config` */
export async function loadConfig<T extends object>(
  config: ConfigKind<T> & { readonly path: string },
): Promise<T> {
  const source = config.path;
  return parseConfig({ ...config, source, text: await readConfigText(source, config.what) });
}

/** Reads the text of a config file. @throws {AppError} `invalid_config` */
export async function readConfigText(path: string, what: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await readRegularFile(path));
  } catch (cause) {
    throw invalid({ what, source: path }, [describeReadFailure(cause)], cause);
  }
}

function invalid(
  config: { readonly what: string; readonly source: string },
  problems: readonly string[],
  cause?: unknown,
): AppError {
  const head = `Cannot load ${config.what} ${JSON.stringify(config.source)}:`;
  const message = problems.length === 1
    ? `${head} ${problems[0]}`
    : [`${head} ${problems.length} problems`, ...problems].join("\n  ");
  return configError(message, cause);
}

/**
 * Removes an unsupported key, so that it is not reported as unknown. Empty values, `null` and `false` have no
 * effect and are accepted.
 */
function takeUnsupported(object: ConfigObject, keys: readonly string[], parent: KeyPath): readonly string[] {
  const [key, ...rest] = keys;
  if (key === undefined) return [];
  const names = key === "*" ? Object.keys(object) : Object.hasOwn(object, key) ? [key] : [];
  return names.flatMap((name) => {
    const path = [...parent, name];
    const member = object[name];
    if (rest.length > 0) return isObject(member) ? takeUnsupported(member, rest, path) : [];
    delete object[name];
    if (member === null || member === "" || member === false) return [];
    return [`"${formatKeyPath(path)}": not supported yet by this version`];
  });
}

function withoutPrototypes(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Object.getPrototypeOf(value) === Object.prototype) Object.setPrototypeOf(value, null);
  for (const member of Object.values(value)) withoutPrototypes(member);
}

/** The address of the signer, and PEM files. */
export interface SignerClientConfig {
  readonly url?: string;
  /** Instead of `url`, several signers that share a database. */
  readonly urls?: readonly string[];
  readonly client_cert: string;
  readonly client_key: string;
  readonly ca: string;
}

const path: z.ZodType<string> = z.string().min(1);
const url = z.url({ protocol: /^https$/, error: "must be an https:// URL" });
/** The maximum number of URLs. Each server is probed every second. */
const MOST_URLS = 16;

interface SignerClientShape {
  readonly url: z.ZodExactOptional<z.ZodURL>;
  readonly urls: z.ZodExactOptional<z.ZodArray<z.ZodURL>>;
  readonly client_cert: z.ZodType<string>;
  readonly client_key: z.ZodType<string>;
  readonly ca: z.ZodType<string>;
}

/**
 * The keys of the block, for a block that has further keys. Such a block also needs {@linkcode
 * findUrlProblems}.
 */
export const SIGNER_CLIENT_SHAPE: SignerClientShape = {
  url: url.exactOptional().describe("https://host:port of the signer"),
  urls: z.array(url).min(1).max(MOST_URLS).exactOptional().describe(
    "instead of url: several signers that share a database, each https://host:port; requests skip a signer that does not answer",
  ),
  client_cert: path.describe("PEM file with the service's certificate; its CN is the service's identity"),
  client_key: path.describe("PEM file with the service's private key"),
  ca: path.describe("PEM file with the CA of the signer's certificate"),
};

/** Problems of the addresses, each with its key; empty for the block. */
export function findUrlProblems(
  { url, urls }: Pick<SignerClientConfig, "url" | "urls">,
): readonly (readonly [string, string])[] {
  if (urls === undefined) return url === undefined ? [["", "names neither url nor urls"]] : [];
  const problems: [string, string][] = [];
  if (url !== undefined) problems.push(["urls", "cannot be combined with url: list all addresses in urls"]);
  const distinct = new Set(urls.map((each) => new URL(each).href));
  if (distinct.size < urls.length) problems.push(["urls", "lists an address twice"]);
  return problems;
}

/** Checks a block. Unknown keys are rejected. */
export const signerClientConfig: z.ZodType<SignerClientConfig> = z.strictObject(SIGNER_CLIENT_SHAPE)
  .superRefine((signer, context) => {
    for (const [key, message] of findUrlProblems(signer)) {
      context.addIssue({ code: "custom", path: key === "" ? [] : [key], message });
    }
  });

/** The addresses of all signers. */
export function signerUrls({ url, urls }: Pick<SignerClientConfig, "url" | "urls">): readonly string[] {
  return urls ?? (url === undefined ? [] : [url]);
}

/** A table with a row for each key, with `<name>` for a key of the operator's choice, and `[]` for an entry. */
export function describeShape(shape: Shape): string {
  return ["| Key | Type | Default | Meaning |", "|---|---|---|---|", ...describeMembers(shape, "")].join(
    "\n",
  );
}

function describeMembers(shape: Shape, path: string): readonly string[] {
  const values = mapValues(shape);
  if (values !== undefined) return describeNested(values, path === "" ? "<name>" : `${path}.<name>`);
  if (shape.items !== undefined) return describeNested(shape.items, `${path}[]`);
  return Object.entries(shape.properties ?? {}).flatMap(([key, member]) => {
    const memberPath = path === "" ? key : `${path}.${key}`;
    const isRequired = shape.required?.includes(key) === true && member.default === undefined;
    return [describeKey(memberPath, member, isRequired), ...describeMembers(member, memberPath)];
  });
}

/** Plain entries have no rows: the type of the map or list describes them. */
function describeNested(shape: Shape, path: string): readonly string[] {
  return shape.type === "object" || shape.type === "array" ? describeMembers(shape, path) : [];
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;" };

function describeKey(path: string, shape: Shape, isRequired: boolean): string {
  const fallback = isRequired
    ? "required"
    : shape.default === undefined
    ? ""
    : code(JSON.stringify(shape.default));
  // Markdown does not decode entities in code spans, so do not escape there.
  const meaning = (shape.description ?? "").replace(/`[^`]*`|[&<]/g, (text) => ENTITIES[text] ?? text);
  const cells = [code(path), describeType(shape), fallback, meaning];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
}

function describeType(shape: Shape): string {
  if (shape.anyOf !== undefined) return [...new Set(shape.anyOf.map(describeType))].join(" or ");
  if (shape.const !== undefined) return code(JSON.stringify(shape.const));
  if (shape.enum !== undefined) return shape.enum.map((value) => code(JSON.stringify(value))).join(" ");
  const values = mapValues(shape);
  if (values !== undefined) return `object of ${describeType(values)}`;
  if (shape.items !== undefined) return `array of ${describeType(shape.items)}`;
  return `${shape.type ?? "any"}${describeRange(shape)}`;
}

function describeRange({ minimum, maximum }: Shape): string {
  // Omit the bounds that only limit a number to exact integers.
  const low = minimum === undefined || minimum <= Number.MIN_SAFE_INTEGER ? undefined : minimum;
  const high = maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? undefined : maximum;
  if (low !== undefined && high !== undefined) return `, ${low} to ${high}`;
  if (low !== undefined) return `, at least ${low}`;
  return high === undefined ? "" : `, at most ${high}`;
}

function code(text: string): string {
  return `\`${text}\``;
}
