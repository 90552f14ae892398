import { MEMBERS, relativePath, resolveImport, ROOT } from "./files.ts";
import { visitImports } from "./imports.ts";

/** Imports of values and types between the files of the workspace, by path. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Reads the imports of every module of the workspace. */
export async function readImportGraph(): Promise<ImportGraph> {
  const graph = new Map<string, readonly string[]>();
  for (const member of MEMBERS) {
    for await (const path of modulesIn(`${ROOT}${member}`)) {
      graph.set(relativePath(path) ?? path, findImports(path, await Deno.readTextFile(path)));
    }
  }
  return graph;
}

/** Returns the files of the workspace that a module imports. */
export function findImports(path: string, source: string): readonly string[] {
  const from = relativePath(path) ?? path;
  const found = new Set<string>();
  const collect: Deno.lint.Plugin = {
    name: "collect",
    rules: {
      imports: {
        create: () =>
          visitImports((_node, { specifier }) => {
            const target = resolveImport(specifier, from);
            if (target !== undefined) found.add(target);
          }),
      },
    },
  };
  Deno.lint.runPlugin(collect, `${ROOT}${from}`, source);
  return [...found];
}

/** Returns the import cycles, each as a list of files that ends with its first file. */
export function findCircles(graph: ImportGraph): readonly (readonly string[])[] {
  const circles: string[][] = [];
  const done = new Set<string>();
  const way: string[] = [];
  const visit = (file: string): void => {
    const start = way.indexOf(file);
    if (start >= 0) circles.push([...way.slice(start), file]);
    if (start >= 0 || done.has(file)) return;
    way.push(file);
    for (const target of graph.get(file) ?? []) visit(target);
    way.pop();
    done.add(file);
  };
  for (const file of graph.keys()) visit(file);
  return circles;
}

async function* modulesIn(folder: string): AsyncIterable<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory && name !== "node_modules") yield* modulesIn(path);
    else if (/\.tsx?$/.test(name)) yield path;
  }
}
