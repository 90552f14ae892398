/**
 * What a process may do, as data: derived from its config by one pure function a service, turned into
 * flags for `deno run` or into the `permissions` of a `deno.json`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { formatFlags } from "@gateway/shared/permissions";
 *
 * assert.deepEqual(formatFlags({ read: ["/etc/gateway/signer.json"], net: ["127.0.0.1:9443"] }), [
 *   "--no-prompt",
 *   "--cached-only",
 *   "--no-code-cache",
 *   "--v8-flags=--max-semi-space-size=2",
 *   "--allow-read=/etc/gateway/signer.json",
 *   "--allow-net=127.0.0.1:9443",
 * ]);
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";

/** Deno permissions of one process; what is absent is not granted. */
export interface PermissionSet {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  /** Absolute paths that stay forbidden inside a granted folder. */
  readonly denyWrite?: readonly string[];
  /** `host:port` in Deno's syntax, IPv6 addresses in brackets; `"any"` is every address and port. */
  readonly net?: readonly string[] | "any";
  /**
   * Environment variables that read as undefined instead of failing, for stray reads by packages; `"all"` is
   * every variable. Nothing of the environment becomes readable by it.
   */
  readonly ignoreEnv?: readonly string[] | "all";
  /** Environment variables that are really read. */
  readonly env?: readonly string[];
  /** Facts about the machine, in Deno's words: `osRelease`. */
  readonly sys?: readonly string[];
}

/** A set as `permissions.<name>` of a `deno.json`. */
export interface PermissionJson {
  /** Files and folders that may be read. */
  readonly read?: readonly string[];
  /** Files and folders that may be written; `deny` takes some of a folder away. */
  readonly write?: readonly string[] | {
    readonly allow: readonly string[];
    readonly deny: readonly string[];
  };
  /** `host:port` of what may be connected to and listened on; `true` is everything. */
  readonly net?: readonly string[] | true;
  /** Variables that are read, and those that read as not set. */
  readonly env?: { readonly allow?: readonly string[]; readonly ignore?: readonly string[] | true };
  /** Facts about the machine that may be asked for. */
  readonly sys?: readonly string[];
}

/** Where a service's config file lies, and where its relative paths start. */
export interface ServiceLocation {
  /** The config file; relative to `workingFolder` when not absolute. */
  readonly configPath: string;
  /** The absolute working folder of the process. */
  readonly workingFolder: string;
}

/** How a process is run, beside what it may do. */
export interface RunOptions {
  /**
   * The limit of V8's semi-space in MB, by default 2: an idle service is 5 MB smaller than with V8's own limit,
   * and no slower. 1 saves 4 MB more and costs a busy service a fifth of its throughput; 4 suits one that has
   * many requests at a time.
   */
  readonly semiSpaceMegabytes?: 1 | 2 | 4;
  /**
   * How much the memory in use may grow, in percent, before V8 looks for garbage again; V8 decides when absent,
   * and lets it become several times as much.
   */
  readonly heapGrowingPercent?: number;
  /**
   * Functions that are often run are compiled one after the other between two pieces of work, not hundreds at a time
   * beside it: what the compilers need for those stays with the process for good.
   */
  readonly compilesInTurn?: boolean;
}

/**
 * The flags of `deno run` for a set. `--no-prompt` comes first; `--cached-only` is always there, for without
 * it an `import()` at run time fetches packages over the network whatever `--allow-net` says. Without the cache of
 * compiled code an idle service is 2 to 5 MB smaller, and starts up to 0.1 s later.
 *
 * @throws {AppError} `invalid_config` when a path holds a comma, at which Deno would split it in two
 */
export function formatFlags(set: PermissionSet, options: RunOptions = {}): string[] {
  const flags = ["--no-prompt", "--cached-only", "--no-code-cache", formatV8Flags(options)];
  const add = (flag: string, values: readonly string[] | "any" | "all" | undefined) => {
    if (typeof values === "string") flags.push(flag);
    else if (values !== undefined && values.length > 0) {
      flags.push(`${flag}=${values.map(checkValue).join(",")}`);
    }
  };
  add("--allow-read", set.read);
  add("--allow-write", set.write);
  add("--deny-write", set.denyWrite);
  add("--allow-net", set.net);
  add("--allow-env", set.env);
  add("--ignore-env", set.ignoreEnv);
  add("--allow-sys", set.sys);
  return flags;
}

/** The flag of `deno run` and `deno compile` for what V8 is told. */
export function formatV8Flags(options: RunOptions): string {
  const { semiSpaceMegabytes = 2, heapGrowingPercent, compilesInTurn = false } = options;
  const flags = [
    `--max-semi-space-size=${semiSpaceMegabytes}`,
    ...heapGrowingPercent === undefined ? [] : [`--heap-growing-percent=${heapGrowingPercent}`],
    ...compilesInTurn ? ["--no-concurrent-recompilation"] : [],
  ];
  return `--v8-flags=${flags.join(",")}`;
}

/** The same set for the `permissions` of a `deno.json`. */
export function formatJson(set: PermissionSet): PermissionJson {
  const { read = [], write = [], denyWrite = [], net = [], ignoreEnv = [], env = [], sys = [] } = set;
  return {
    ...(read.length > 0 && { read }),
    ...(write.length > 0 && { write: denyWrite.length > 0 ? { allow: write, deny: denyWrite } : write }),
    ...(net.length > 0 && { net: net === "any" ? true : net }),
    ...((ignoreEnv.length > 0 || env.length > 0) && {
      env: {
        ...(env.length > 0 && { allow: env }),
        ...(ignoreEnv.length > 0 && { ignore: ignoreEnv === "all" ? true : ignoreEnv }),
      },
    }),
    ...(sys.length > 0 && { sys }),
  };
}

/** One set that grants what any of the given sets grants; each list sorted and without repetition. */
export function mergeSets(...sets: readonly PermissionSet[]): PermissionSet {
  const read = union(sets.map((set) => set.read));
  const write = union(sets.map((set) => set.write));
  const denyWrite = union(sets.map((set) => set.denyWrite));
  const env = union(sets.map((set) => set.env));
  const sys = union(sets.map((set) => set.sys));
  const net = sets.some((set) => set.net === "any") ? "any" : union(sets.map((set) => lists(set.net)));
  const ignoreEnv = sets.some((set) => set.ignoreEnv === "all")
    ? "all"
    : union(sets.map((set) => lists(set.ignoreEnv)));
  return {
    ...(read.length > 0 && { read }),
    ...(write.length > 0 && { write }),
    ...(denyWrite.length > 0 && { denyWrite }),
    ...(net.length > 0 && { net }),
    ...(ignoreEnv.length > 0 && { ignoreEnv }),
    ...(env.length > 0 && { env }),
    ...(sys.length > 0 && { sys }),
  };
}

function lists(value: readonly string[] | "any" | "all" | undefined): readonly string[] | undefined {
  return typeof value === "string" ? undefined : value;
}

function union(values: readonly (readonly string[] | undefined)[]): readonly string[] {
  return [...new Set(values.flatMap((list) => list ?? []))].sort();
}

function checkValue(value: string): string {
  if (value.includes(",")) {
    throw new AppError(
      "invalid_config",
      `Cannot grant ${JSON.stringify(value)}: a path with a comma can't be a flag`,
    );
  }
  return value;
}
