import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

/** What every command loads; another library needs a reason to be here, or `await import()` where it is used. */
const LOADED = ["commander", "ipaddr.js", "jsonc-parser", "re2js", "unbash", "zod"];

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly specifier: string;
    readonly isDynamic?: boolean;
    readonly code?: { readonly specifier: string };
  }[];
}

Deno.test("broker-ctl loads what a command needs when it runs, and not before", async () => {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--quiet", fileURLToPath(new URL("../../ctl/main.ts", import.meta.url))],
    stderr: "null",
  }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { readonly modules: readonly Module[] };
  const dependencies = new Map(modules.map((each) => [each.specifier, each.dependencies ?? []]));
  const loaded = new Set<string>();
  const load = (specifier: string) => {
    if (loaded.has(specifier)) return;
    loaded.add(specifier);
    for (const { code, isDynamic } of dependencies.get(specifier) ?? []) {
      if (code !== undefined && isDynamic !== true) load(code.specifier);
    }
  };
  load(import.meta.resolve("../../ctl/main.ts"));
  const libraries = [...loaded].flatMap((each) => /^npm:\/?(@?[^@]+)@/.exec(each)?.slice(1) ?? []);
  assert.ok(loaded.size > 100, `${loaded.size} modules`);
  assert.deepEqual([...new Set(libraries)].sort(), LOADED);
});
