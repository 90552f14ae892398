/**
 * Loading a config file: JSON with comments, checked strictly, every problem reported at once. A broken
 * config stops the start; nothing of it is guessed or ignored.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import * as z from "@zod/zod";
 * import { parseConfig } from "@gateway/shared/config";
 *
 * const schema = z.strictObject({ listen: z.string(), hosts: z.record(z.string(), z.string()).default({}) });
 * const options = { what: "signer config", source: "signer.json", schema };
 * assert.equal(parseConfig({ ...options, text: '{ "listen": ":1", /* note *\/ }' }).listen, ":1");
 * assert.throws(
 *   () => parseConfig({ ...options, text: '{ "listen": ":1", "host": {} }' }),
 *   { message: 'Cannot load signer config "signer.json": unknown key "host" (did you mean "hosts"?)' },
 * );
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError } from "../errors.ts";
import { describeReadFailure, readRegularFile } from "../files/files.ts";
import { formatKeyPath, type KeyPath } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import {
  type ConfigObject,
  createConfigObject,
  describeIssue,
  isConfigObject,
  type Shape,
  shapeAt,
  shapeOf,
  withoutComments,
} from "./problems.ts";
import { LargeMap, parseJsonc, type WrittenMap } from "./jsonc.ts";

/** A config's kind and rules. */
export interface ConfigKind<T extends object> {
  /** As messages name it: `signer config`. */
  readonly what: string;
  /** Checks the config and fills in its defaults. */
  readonly schema: z.ZodType<T>;
  /**
   * Keys of the specification that this version refuses, as dotted paths from the top; `*` stands for any
   * key of a map (`hosts.*.sealed_exec`).
   */
  readonly unsupported?: readonly string[];
  /**
   * Maps at the top that may have very many entries, by key, each with its schema: they are checked a few entries
   * at a time. They need a default, and no rule that looks at several entries.
   */
  readonly large?: Readonly<Record<string, z.ZodType>>;
}

/** A config's text, and where it came from. */
interface ConfigText<T extends object> extends ConfigKind<T> {
  /** JSON with comments and trailing commas. */
  readonly text: string;
  /** The file's name as messages show it. */
  readonly source: string;
  /** The config that this one replaces: entries of large maps that are written as in its text are taken over. */
  readonly previous?: T | undefined;
}

interface ConfigFile<T extends object> extends ConfigKind<T> {
  /** The file to read; relative to the working folder when not absolute. */
  readonly path: string;
}

/**
 * Checks the text of a config and gives it with its defaults. Objects in the result have no prototype, so
 * that a lookup by a name that came over the network finds only what the operator wrote.
 *
 * @throws {AppError} `invalid_config` with every problem and its key path, one a line when there are several
 */
export function parseConfig<T extends object>(config: ConfigText<T>): T {
  return finish(parseConfigSteps(config));
}

/**
 * {@linkcode parseConfig} in steps, for a service that answers requests meanwhile.
 *
 * @throws {AppError} `invalid_config` with every problem and its key path, one a line when there are several
 */
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

/** How the large maps of configs were written, for as long as somebody has the config. */
const WRITTEN = new WeakMap<
  object,
  { readonly schema: z.ZodType; readonly maps: ReadonlyMap<string, WrittenMap> }
>();

/** What a config, or a part of one, is checked by. */
interface Checks<T extends object> extends ConfigKind<T> {
  readonly shape: Shape;
  /** What is found wrong is appended. */
  readonly problems: string[];
}

/** Checks an entry of a map at the top of a config; the map has nothing else then, or nothing after problems. */
function checkOne(
  checks: Checks<Record<string, unknown>>,
  key: string,
  name: string,
  entry: unknown,
): ConfigObject {
  const part = createConfigObject();
  part[name] = entry;
  const checked = check(checks, { [key]: part })?.[key];
  return isConfigObject(checked) ? checked : createConfigObject();
}

/** The value of a config or of a part, with defaults; `undefined` after problems. */
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
 * Without the blocks at the top that are `null` and may be absent: they are not asked for. Deeper a `null` stays, and
 * is refused: a host whose `command_policy` is `null` is hardly meant to be one without rules.
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

/**
 * Reads and checks a config file.
 *
 * @throws {AppError} `invalid_config` when it cannot be read, is not UTF-8, or has any problem
 */
export async function loadConfig<T extends object>(config: ConfigFile<T>): Promise<T> {
  const source = config.path;
  return parseConfig({ ...config, source, text: await readConfigText(source, config.what) });
}

/**
 * Reads the text of a config file.
 *
 * @throws {AppError} `invalid_config` when it cannot be read or is not UTF-8
 */
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
  return new AppError("invalid_config", message, { cause });
}

/**
 * Removes an unsupported key wherever it stands, so that it is reported as such and not as unknown. Empty, `null`
 * and `false` ask for nothing.
 */
function takeUnsupported(object: ConfigObject, keys: readonly string[], parent: KeyPath): readonly string[] {
  const [key, ...rest] = keys;
  if (key === undefined) return [];
  const names = key === "*" ? Object.keys(object) : Object.hasOwn(object, key) ? [key] : [];
  return names.flatMap((name) => {
    const path = [...parent, name];
    const member = object[name];
    if (rest.length > 0) return isConfigObject(member) ? takeUnsupported(member, rest, path) : [];
    delete object[name];
    if (member === null || member === "" || member === false) return [];
    return [`"${formatKeyPath(path)}": not supported yet by this version`];
  });
}

/** The schema's result is made of ordinary objects, fresh from the parse; a map among them must not inherit. */
function withoutPrototypes(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  if (Object.getPrototypeOf(value) === Object.prototype) Object.setPrototypeOf(value, null);
  for (const member of Object.values(value)) withoutPrototypes(member);
}
