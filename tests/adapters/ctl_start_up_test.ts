import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { VERSION } from "@gateway/shared/service";

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

const fileOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));

async function run(...args: readonly string[]): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: [...args], stderr: "null" }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test.each([
  "ctl/main.ts",
  "ctl/bridge/main.ts",
  "signer/main.ts",
  "control_plane/main.ts",
  "broker/main.ts",
])(
  "%s says its version, and with --verbose all of the build",
  async (program) => {
    const print = (...args: readonly string[]) =>
      run(
        "run",
        "--quiet",
        "--no-prompt",
        "--cached-only",
        "--no-check",
        "--ignore-env",
        fileOf(program),
        ...args,
      );
    assert.equal(await print("--version"), `${VERSION}\n`);
    assert.match(await print("--version", "--verbose"), /^version .*\n {2}deno: .*\n {2}platform: /);
  },
);

Deno.test("broker-ctl loads what a command needs when it runs, and not before", async () => {
  const info = await run("info", "--json", "--quiet", fileOf("ctl/main.ts"));
  const { modules } = JSON.parse(info) as { readonly modules: readonly Module[] };
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
