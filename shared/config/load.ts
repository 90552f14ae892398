/**
 * Loads config files: JSON with comments, checked strictly, with all problems in one report. A broken config stops the
 * start.
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError, configError } from "../errors.ts";
import { describeReadFailure, readRegularFile } from "../files/mod.ts";
import { isObject } from "../json.ts";
import { formatKeyPath, type KeyPath } from "../text.ts";
import { finish, type Steps } from "../clock.ts";
import {
  type ConfigObject,
  createConfigObject,
  describeIssue,
  type Shape,
  shapeAt,
  shapeOf,
  withoutComments,
} from "./problems.ts";
import { LargeMap, parseJsonc, type WrittenMap } from "./jsonc.ts";

/** The kind and rules of a config. */
export interface ConfigKind<T extends object> {
  /** In messages: `signer config`. */
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

/** Does the same in steps, for a service that answers requests meanwhile. */
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
 * Removes optional blocks at the top that are `null`. A `null` further down is rejected: a host whose `command_policy` is
 * `null` is hardly meant to have no rules.
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

/** Removes an unsupported key, so that it is not reported as unknown. Empty, `null` and `false` have no effect. */
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
