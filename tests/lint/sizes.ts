import shared from "../../shared/deno.json" with { type: "json" };
import { isTest, MEMBERS, ROOT } from "./files.ts";

/** Sizes that can grow only with an edit of sizes.json. */
export interface Sizes {
  /** Lines of source without comments, empty lines and tests, by member. */
  readonly code_lines: Readonly<Record<string, number>>;
  /** Export paths in shared/deno.json. */
  readonly shared_doors: number;
}

/** TypeScript, JavaScript and CSS files by their paths from the root. */
export type Sources = ReadonlyMap<string, string>;

/** Reads the source files and tests of all members. */
export async function readSources(): Promise<Sources> {
  const sources = new Map<string, string>();
  for (const member of MEMBERS) {
    for await (const path of filesIn(member)) sources.set(path, await Deno.readTextFile(`${ROOT}${path}`));
  }
  return sources;
}

/** Measures the values of {@linkcode Sizes}. */
export function measure(sources: Sources): Sizes {
  const members = MEMBERS.filter((member) => member !== "tests").toSorted();
  const linesOf = (member: string) =>
    [...sources].filter(([path]) => path.startsWith(`${member}/`) && !isTest(path) && !/_test\//.test(path))
      .reduce((sum, [, text]) => sum + countCode(text), 0);
  return {
    code_lines: Object.fromEntries(members.map((member) => [member, linesOf(member)])),
    shared_doors: Object.keys(shared.exports).length,
  };
}

/** Counts the lines that are not empty and do not start as a comment. */
export function countCode(text: string): number {
  let count = 0;
  let inComment = false;
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (inComment) inComment = !line.includes("*/");
    else if (line.startsWith("/*")) inComment = !line.includes("*/");
    else if (line !== "" && !line.startsWith("//")) count += 1;
  }
  return count;
}

const EXPORT =
  /^export\s+(?:declare\s+)?(?:async\s+)?(?:abstract\s+)?(?:function\*?|class|const|let|interface|type)\s+([A-Za-z_$][\w$]*)/gm;
const USES = [
  /^\s*(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s*from/gm,
  /\{([^}]*)\}\s*=\s*await\s+import\(/g,
  /\{([^}]*)\}\]?\s*=\s*await\s+Promise\.all/g,
  /@import\s+\{([^}]*)\}\s*from/g,
  /import\("[^"]+"\)\.(\w+)/g,
];

/** A file with such an import uses exports by `module.name`. */
const WHOLE_MODULE = /\* as \w+ from|await import\(|\bimport\("[^"]+"\)[,\]]/;

/** Returns the exports that no other file imports: `path name`. */
export function findUnusedExports(sources: Sources): readonly string[] {
  const used = new Map<string, Set<string>>();
  for (const [path, text] of sources) {
    for (const pattern of WHOLE_MODULE.test(text) ? [...USES, /\.(\w+)/g] : USES) {
      for (const [, names = ""] of text.matchAll(pattern)) {
        for (const name of names.matchAll(/[A-Za-z_$][\w$]*/g)) {
          const files = used.get(name[0]) ?? new Set();
          used.set(name[0], files.add(path));
        }
      }
    }
  }
  return [...sources].flatMap(([path, text]) =>
    isTest(path) || path.endsWith(".d.ts") ? [] : [...text.matchAll(EXPORT)].map(([, name = ""]) => name)
      .filter((name) => (used.get(name)?.size ?? 0) === 0 && !text.includes(`export default ${name}`))
      .map((name) => `${path} ${name}`)
  );
}

async function* filesIn(folder: string): AsyncIterable<string> {
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${folder}`)) {
    const path = `${folder}/${name}`;
    if (isDirectory && name !== "node_modules" && path !== "tests/vectors") yield* filesIn(path);
    else if (/(?<!\.bundle)\.(?:tsx?|js|css)$/.test(name)) yield path;
  }
}
