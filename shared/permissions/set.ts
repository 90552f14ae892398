/**
 * The permissions of a process as data: derived from its config by one pure function per service, and formatted as
 * flags for `deno run` or as the `permissions` of a `deno.json`.
 *
 * @module
 */
import { AppError } from "../errors.ts";

/** Deno permissions of one process. Absent permissions are not granted. */
export interface PermissionSet {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  /** Absolute paths that stay forbidden inside a granted directory. */
  readonly denyWrite?: readonly string[];
  /** `host:port` in Deno's syntax, IPv6 addresses in brackets; `"any"` is every address and port. */
  readonly net?: readonly string[] | "any";
  /** Environment variables that packages read for no purpose: they read as undefined. `"all"` is every variable. */
  readonly ignoreEnv?: readonly string[] | "all";
  readonly env?: readonly string[];
  /** Facts about the machine, in Deno's words: `osRelease`. */
  readonly sys?: readonly string[];
}

/** A set as `permissions.<name>` of a `deno.json`; `true` grants everything. */
export interface PermissionJson {
  readonly read?: readonly string[];
  readonly write?: readonly string[] | {
    readonly allow: readonly string[];
    readonly deny: readonly string[];
  };
  readonly net?: readonly string[] | true;
  readonly env?: { readonly allow?: readonly string[]; readonly ignore?: readonly string[] | true };
  readonly sys?: readonly string[];
}

/** The config file of a service, and the absolute directory that relative paths start from. */
export interface ServiceLocation {
  readonly configPath: string;
  readonly workingFolder: string;
}

/** The settings of V8 for a process. */
export interface RunOptions {
  /**
   * The limit of V8's semi-space, by default 2: an idle service takes 5 MB less than with V8's own limit, at the same
   * speed. 1 saves 4 MB more and costs a busy service a fifth of its throughput. 4 suits many concurrent requests.
   */
  readonly semiSpaceMegabytes?: 1 | 2 | 4;
  /** The growth of the used memory before V8 collects garbage, in percent. V8's own limit is several hundred. */
  readonly heapGrowingPercent?: number;
  /** Compiles hot functions one after the other: the memory of concurrent compilers stays with the process. */
  readonly compilesInTurn?: boolean;
}

/**
 * The flags of `deno run` for a set. Without `--cached-only`, an `import()` at run time fetches packages over the
 * network, whatever `--allow-net` allows. Without the cache of compiled code an idle service takes 2 to 5 MB less, and
 * starts up to 0.1 s later.
 *
 * @throws {AppError} `invalid_config` if a path has a comma, because Deno would split it
 */
export function formatFlags(set: PermissionSet, options: RunOptions = {}): string[] {
  const granted = [
    ["--allow-read", set.read],
    ["--allow-write", set.write],
    ["--deny-write", set.denyWrite],
    ["--allow-net", set.net],
    ["--allow-env", set.env],
    ["--ignore-env", set.ignoreEnv],
    ["--allow-sys", set.sys],
  ] as const;
  return [
    ...["--no-prompt", "--cached-only", "--no-code-cache", formatV8Flags(options)],
    ...granted.flatMap(([flag, values = []]) => {
      if (typeof values === "string") return [flag];
      const split = values.find((value) => value.includes(","));
      if (split === undefined) return values.length > 0 ? [`${flag}=${values.join(",")}`] : [];
      const message = `Cannot grant ${JSON.stringify(split)}: a path with a comma can't be a flag`;
      throw new AppError("invalid_config", message);
    }),
  ];
}

/** The flag of `deno run` and `deno compile` with the settings of V8. */
export function formatV8Flags(options: RunOptions): string {
  const { semiSpaceMegabytes = 2, heapGrowingPercent, compilesInTurn = false } = options;
  const flags = [
    `--max-semi-space-size=${semiSpaceMegabytes}`,
    ...heapGrowingPercent === undefined ? [] : [`--heap-growing-percent=${heapGrowingPercent}`],
    ...compilesInTurn ? ["--no-concurrent-recompilation"] : [],
  ];
  return `--v8-flags=${flags.join(",")}`;
}

/** The set for the `permissions` of a `deno.json`. */
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

/** The union of sets; each list is sorted and without duplicates. */
export function mergeSets(...sets: readonly PermissionSet[]): PermissionSet {
  const keys = ["read", "write", "denyWrite", "net", "ignoreEnv", "env", "sys"] as const;
  return Object.fromEntries(keys.flatMap((key) => {
    const values = sets.map((set) => set[key] ?? []);
    const all = values.find((value) => typeof value === "string");
    const union = [...new Set(values.flatMap((value) => value))].sort();
    return union.length === 0 ? [] : [[key, all ?? union]];
  }));
}
