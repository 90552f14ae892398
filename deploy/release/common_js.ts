import { basename } from "node:path";

const WHOLLY_COMMON_JS = /^export default require_\w+\(\);?$/m;
const IMPORT = /\bimport\("\.\/([^"/]+)"\)/g;

/**
 * Has what is CommonJS in bundles, such as `ssh2`, find what Deno gives it where it is not bundled: the folder that it
 * is in, and, when it is loaded on demand, its exports by their names. Without the one a broker ends with the first host
 * that it connects to, without the other nothing that is loaded has any member.
 *
 * @param files the files of one bundle, text by path
 */
export function mendCommonJs(files: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const wholly = new Set(
    [...files].filter(([, text]) => WHOLLY_COMMON_JS.test(text)).map(([path]) => basename(path)),
  );
  const named = (text: string) =>
    text.replaceAll(
      IMPORT,
      (found, name: string) => wholly.has(name) ? `${found}.then((module) => module.default)` : found,
    );
  return new Map([...files].map(([path, text]) => [path, withDirname(named(text))]));
}

function withDirname(text: string): string {
  const isFree = /\b__dirname\b/.test(text) && !/^(?:let|const) __dirname\b/m.test(text);
  // A package may have one of its own in the same scope, also among others: `var` may be said twice.
  return isFree ? `var __dirname = import.meta.dirname;\n${text}` : text;
}
