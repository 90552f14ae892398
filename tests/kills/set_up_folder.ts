import { join } from "node:path";
import { parse, type ParseError } from "jsonc-parser";
import { ROOT } from "../stage/service_command.ts";

/** The comparable part of a file: each run creates new configs and keys. */
interface Entry {
  /** The 9 permission bits of a file. */
  readonly mode: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Files by their path in a directory, without the time stamp of an earlier installation. */
export type Tree = ReadonlyMap<string, Entry>;

const STAMP = /backup-\d{8}T\d{6}Z(?:-\d+)?/;
/** Files that a killed process may leave. doctor reports them, and no program reads them. */
const LEFT = /(?:^|\/)\.[^/]*\.(?:[0-9a-f]{16}|[0-9a-f]{24})(?:\/|$)/;

/** A directory for `broker-ctl`, always at the same path because configs contain absolute paths. */
export class SetUpFolder {
  readonly path: string;
  readonly #kept: string;

  constructor(parent: string) {
    this.path = join(parent, "here");
    this.#kept = join(parent, "kept");
  }

  async clear(): Promise<void> {
    await Deno.remove(this.path, { recursive: true }).catch(() => {});
    await Deno.mkdir(this.path, { mode: 0o700 });
  }

  async keep(): Promise<void> {
    await Deno.remove(this.#kept, { recursive: true }).catch(() => {});
    await copy(this.path, this.#kept);
  }

  async putBack(): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
    await copy(this.#kept, this.path);
  }

  /** Starts `broker-ctl` from source in the directory, with minimal permissions. */
  start(args: readonly string[]): Deno.ChildProcess {
    const permissions = [
      "--allow-read",
      "--allow-sys=uid",
      `--allow-write=${this.path}`,
      "--allow-net=127.0.0.1",
    ];
    return new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "--cached-only",
        "--quiet",
        "--ignore-env",
        ...permissions,
        `${ROOT}ctl/main.ts`,
        ...args,
      ],
      cwd: this.path,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  async run(args: readonly string[]): Promise<{ readonly success: boolean; readonly said: string }> {
    const { success, stdout, stderr } = await this.start(args).output();
    return { success, said: new TextDecoder().decode(new Uint8Array([...stdout, ...stderr])) };
  }

  async read(): Promise<Tree> {
    const found = new Map<string, Entry>();
    const enter = async (folder: string): Promise<void> => {
      for await (const { name, isDirectory } of Deno.readDir(join(this.path, folder))) {
        const path = folder === "" ? name : `${folder}/${name}`;
        if (isDirectory) await enter(path);
        else {
          const at = join(this.path, path);
          const { mode } = await Deno.lstat(at);
          found.set(unusedName(path.replace(STAMP, "backup"), found), {
            mode: (mode ?? 0) & 0o777,
            bytes: await Deno.readFile(at),
          });
        }
      }
    };
    await enter("");
    return found;
  }
}

/** Keeps the files of every earlier installation under a separate name. */
function unusedName(path: string, found: Tree): string {
  return found.has(path) ? unusedName(`${path}~`, found) : path;
}

async function copy(from: string, to: string): Promise<void> {
  const { success } = await new Deno.Command("cp", { args: ["-a", from, to] }).output();
  if (!success) throw new Error(`cannot copy ${from}`);
}

export function leftIn(tree: Tree): readonly string[] {
  return [...tree.keys()].filter((path) => LEFT.test(path));
}

/** Incomplete files: equal to neither the earlier nor the later file. */
export function findTorn(tree: Tree, before: Tree, after: Tree): readonly string[] {
  return [...tree].filter(([path]) => !LEFT.test(path)).flatMap(([path, { mode, bytes }]) => {
    const known = [before.get(path), after.get(path)].filter((entry) => entry !== undefined);
    if (known.length === 0) return [`${path} is nothing that was to be there`];
    if (!known.some((entry) => entry.mode === mode)) return [`${path} has the mode ${mode.toString(8)}`];
    if (bytes.length === 0 && !known.some((entry) => entry.bytes.length === 0)) return [`${path} is empty`];
    const errors: ParseError[] = [];
    const text = new TextDecoder().decode(bytes);
    if (path.endsWith(".json")) parse(text, errors, { allowTrailingComma: true });
    const isCut = /^-----BEGIN /.test(text) && !/-----END [A-Z ]+-----\s*$/.test(text);
    return errors.length > 0 || isCut ? [`${path} was written in part`] : [];
  });
}

/** The differences between a tree and the result of an undisturbed run. */
export function findMissing(tree: Tree, after: Tree): readonly string[] {
  const missing = [...after].flatMap(([path, { mode }]) => {
    const entry = tree.get(path);
    if (entry === undefined) return [`${path} is not there`];
    return entry.mode === mode ? [] : [`${path} has the mode ${entry.mode.toString(8)}`];
  });
  const more = [...tree.keys()].filter((path) => !LEFT.test(path) && !after.has(path));
  return [...missing, ...more.map((path) => `${path} is there too`)];
}

/** Earlier files whose bytes no longer exist. */
export function findLost(tree: Tree, before: Tree): readonly string[] {
  const there = new Set([...tree.values()].map(({ bytes }) => bytes.toHex()));
  return [...before].filter(([, { bytes }]) => !there.has(bytes.toHex())).map(([path]) => `${path} is lost`);
}
