import { AppError } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import { decodeText, dropPartialWord } from "../engine/graph/text.ts";
import { findInside, isSecretFile, isWithin, resolveRoots } from "./secret_files.ts";

const DEFAULT_PATTERNS: readonly string[] = [
  "README*",
  "pyproject.toml",
  "requirements*.txt",
  "package.json",
  "tsconfig.json",
  "go.mod",
  "Cargo.toml",
  "Dockerfile",
  "docker-compose*.yml",
  "src/**/*",
  "tests/**",
];

export interface ProjectRequest {
  readonly path: string;
  /** Empty: {@linkcode DEFAULT_PATTERNS}. */
  readonly patterns: readonly string[];
  readonly maxFiles: number;
  readonly maxCharsPerFile: number;
}

interface ProjectFile {
  readonly path: string;
  /** `undefined` for a binary file. */
  readonly text: string | undefined;
  readonly isCut: boolean;
}

export type Project = Awaited<ReturnType<typeof collectProject>>;

type MaskText = (text: string) => Promise<string>;

const EXCLUDED_DIRECTORIES = new Set(
  ".git .hg .svn .venv venv node_modules dist build target __pycache__ .pytest_cache .mypy_cache .ruff_cache .next .turbo"
    .split(" "),
);

const MAX_ENTRIES = 20_000;
const MAX_DEPTH = 32;
const MAX_NOTED_LINKS = 5;
const BYTES_PER_CHARACTER = 4;
/** The bytes that are read beyond the shown part, so that a secret is masked before the text is truncated. */
const LOOKAHEAD_BYTES = 16_384;

/**
 * Collects the files that match, pattern by pattern, up to `maxFiles`.
 *
 * @param allowedRoots the directories that may contain projects
 * @param mask applied to each file before it is truncated
 */
export async function collectProject(
  request: ProjectRequest,
  allowedRoots: readonly string[],
  mask: MaskText = (text) => Promise.resolve(text),
) {
  const { maxFiles, maxCharsPerFile } = request;
  for (const [name, value] of Object.entries({ max_files: maxFiles, max_chars_per_file: maxCharsPerFile })) {
    if (Number.isInteger(value) && value >= 1) continue;
    throw new AppError("invalid_request", `${name} must be at least 1`);
  }
  const root = await findInside(request.path, await resolveRoots(allowedRoots));
  if (root === undefined || !(await Deno.stat(root)).isDirectory) {
    throw new AppError(
      "invalid_request",
      `Cannot read project ${JSON.stringify(request.path)}: not a directory within ALLOWED_PROJECT_ROOTS`,
    );
  }
  const notes: string[] = [];
  const patterns = request.patterns.length === 0 ? DEFAULT_PATTERNS : request.patterns;
  const matchers = patterns.flatMap((pattern) => {
    const matcher = compileGlob(pattern);
    if (typeof matcher === "function") return [matcher];
    notes.push(`pattern ${JSON.stringify(pattern)} was ignored: ${matcher}`);
    return [];
  });
  const paths = select(await listFiles(root, notes), matchers, maxFiles, notes);
  const files: ProjectFile[] = [];
  for (const path of paths) {
    const file = await readProjectFile(root, path, { maxChars: maxCharsPerFile, mask });
    if (file === undefined) {
      notes.push(`${path} was omitted: it cannot be read, or is outside the project`);
    } else files.push(file);
  }
  return { root, files, notes };
}

function select(
  paths: readonly string[],
  matchers: readonly PathMatcher[],
  maxFiles: number,
  notes: string[],
): readonly string[] {
  const chosen = new Set<string>();
  for (const matches of matchers) {
    for (const path of paths) {
      if (chosen.size === maxFiles) {
        notes.push(`only the first ${maxFiles} matching files are included`);
        return [...chosen].toSorted();
      }
      if (!chosen.has(path) && matches(path)) chosen.add(path);
    }
  }
  return [...chosen].toSorted();
}

/** Lists the files below a directory. Links to directories are not followed. */
async function listFiles(root: string, notes: string[]): Promise<readonly string[]> {
  const paths: string[] = [];
  let count = 0;
  let links = 0;

  async function enter(directory: string, depth: number): Promise<void> {
    const entries: Deno.DirEntry[] = [];
    try {
      for await (const entry of Deno.readDir(`${root}/${directory}`)) {
        if (++count > MAX_ENTRIES) break;
        entries.push(entry);
      }
    } catch {
      notes.push(`directory ${directory || "."} was omitted: it cannot be read`);
      return;
    }
    for (const { name, ...entry } of entries.sort((a, b) => a.name < b.name ? -1 : 1)) {
      const path = directory === "" ? name : `${directory}/${name}`;
      if (EXCLUDED_DIRECTORIES.has(name)) continue;
      if (entry.isDirectory && depth < MAX_DEPTH) await enter(path, depth + 1);
      else if (entry.isSymlink) await followLink(path);
      else if (entry.isFile) add(path, path);
    }
  }

  async function followLink(path: string): Promise<void> {
    const target = await findInside(`${root}/${path}`, [root]);
    if (target !== undefined && (await Deno.stat(target).catch(() => undefined))?.isFile === true) {
      return add(path, target.slice(root.length + 1));
    }
    if (++links > MAX_NOTED_LINKS) return;
    notes.push(`link ${path} was omitted: its target is not a file within the project`);
  }

  function add(path: string, target: string): void {
    if (target.split("/").some((part) => EXCLUDED_DIRECTORIES.has(part))) return;
    if (isSecretFile(path) || isSecretFile(target)) notes.push(`${path} was omitted: it may contain secrets`);
    else paths.push(path);
  }

  await enter("", 0);
  if (count > MAX_ENTRIES) notes.push(`only the first ${MAX_ENTRIES} directory entries were examined`);
  if (links > MAX_NOTED_LINKS) notes.push(`${links - MAX_NOTED_LINKS} more links were omitted`);
  return paths.sort();
}

/** Reads the beginning of a file, if the opened file is still within the project. */
async function readProjectFile(
  root: string,
  path: string,
  { maxChars, mask }: { readonly maxChars: number; readonly mask: MaskText },
): Promise<ProjectFile | undefined> {
  try {
    const real = await Deno.realPath(`${root}/${path}`);
    using file = await Deno.open(real, { read: true });
    // Compare the opened file with the path again, because links may have changed in the meantime.
    const [opened, now] = await Promise.all([file.stat(), Deno.realPath(real)]);
    const there = await Deno.lstat(now);
    if (!isWithin(now, root) || !opened.isFile || opened.ino !== there.ino || opened.dev !== there.dev) {
      return undefined;
    }
    const bytes = await readStart(file, maxChars * BYTES_PER_CHARACTER + LOOKAHEAD_BYTES);
    const hasMore = opened.size > bytes.length;
    const text = decodeText(bytes, hasMore);
    if (text === undefined) return { path, text: undefined, isCut: false };
    const masked = await mask(hasMore ? dropPartialWord(text) : text);
    const start = cutText(masked, maxChars);
    return { path, text: start, isCut: start.length < masked.length || hasMore };
  } catch {
    return undefined;
  }
}

async function readStart(file: Deno.FsFile, maxBytes: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(Math.min(maxBytes, (await file.stat()).size + 1));
  let size = 0;
  while (size < buffer.length) {
    const count = await file.read(buffer.subarray(size));
    if (count === null) break;
    size += count;
  }
  return buffer.subarray(0, size);
}

/**
 * File patterns: `*` and `?` within a name and `**` for any number of directories. Users write
 * the patterns, so they are not converted to regular expressions. `picomatch` took 36 s to match `*a*a*a*a*ab` with a
 * name of 201 characters. This matcher takes 0.5 ms.
 */

const MAX_PATTERN = 300;

type PathMatcher = (path: string) => boolean;

/** Compiles a pattern, or returns why it is rejected. Absolute patterns and `..` would leave the project. */
export function compileGlob(pattern: string): PathMatcher | string {
  const text = pattern.trim().replace(/^(?:\.\/)+/, "");
  if (text === "" || text.length > MAX_PATTERN) return "it is empty or too long";
  if (text.startsWith("/") || text.split("/").includes("..")) return "it leaves the project";
  if (/[{}]/.test(text)) return "it has braces; give several patterns instead";
  const parts = text.split("/").filter((part) => part !== "");
  return (path) => matchParts(parts, path.split("/"));
}

/** Matches a path. A final `**` may match nothing. */
function matchParts(pattern: readonly string[], path: readonly string[]): boolean {
  // reachable[i]: the first i parts of the pattern match the parts of the path so far.
  let reachable = closure(pattern, pattern.map(() => false).concat(false).with(0, true));
  for (const name of path) {
    const next = reachable.map(() => false);
    for (const [at, part] of pattern.entries()) {
      if (!reachable[at]) continue;
      if (part === "**") next[at] = true;
      else if (matchName(part, name)) next[at + 1] = true;
    }
    reachable = closure(pattern, next);
  }
  return reachable[pattern.length] === true;
}

function closure(pattern: readonly string[], reachable: boolean[]): boolean[] {
  for (const [at, part] of pattern.entries()) {
    if (part === "**" && reachable[at]) reachable[at + 1] = true;
  }
  return reachable;
}

/** Matches `*` and `?`. Matching never backtracks beyond the last star. */
function matchName(pattern: string, name: string): boolean {
  let at = 0;
  let star = -1;
  let resume = 0;
  let position = 0;
  while (position < name.length) {
    const character = pattern.charAt(at);
    if (character === "*") {
      star = at++;
      resume = position;
    } else if (character !== "" && (character === "?" || character === name.charAt(position))) {
      at++;
      position++;
    } else if (star >= 0) {
      at = star + 1;
      position = ++resume;
    } else {
      return false;
    }
  }
  while (pattern.charAt(at) === "*") at++;
  return at === pattern.length;
}
