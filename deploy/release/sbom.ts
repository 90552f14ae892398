import { Buffer } from "node:buffer";
import { Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import { parseStandardJson } from "@gateway/shared/json";
import { PROGRAMS } from "./bundle.ts";
import { run } from "./stage.ts";
import type { Sources } from "./sources.ts";

interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly dependencies: readonly string[];
}

interface ModuleGraph {
  readonly modules: readonly { readonly npmPackage?: string }[];
  readonly npmPackages: Readonly<Record<string, NpmPackage>>;
}

interface Lock {
  readonly npm: Readonly<Record<string, { readonly integrity?: string }>>;
}

/** The bill of materials in CycloneDX's JSON: Deno, and every npm package that a program can load, with its hash. */
export async function describeMaterials(sources: Sources): Promise<string> {
  const { folder, version, epoch } = sources;
  const lock = parseStandardJson(await Deno.readTextFile(`${folder}/deno.lock`)) as Lock;
  const packages = new Map<string, NpmPackage>();
  for (const { entry, member } of PROGRAMS) {
    const args = ["info", "--json", `--config=${member}/deno.json`, entry];
    const graph = parseStandardJson(await run(Deno.execPath(), args, { cwd: folder })) as ModuleGraph;
    for (const found of reachable(graph)) packages.set(`${found.name}@${found.version}`, found);
  }
  return serialize({ version, epoch, packages: [...packages.values()], lock });
}

function reachable({ modules, npmPackages }: ModuleGraph): readonly NpmPackage[] {
  const found = new Map<string, NpmPackage>();
  const keys = modules.flatMap(({ npmPackage }) => npmPackage ?? []);
  for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
    const next = npmPackages[key];
    if (next === undefined || found.has(key)) continue;
    found.set(key, next);
    keys.push(...next.dependencies);
  }
  return [...found.values()];
}

export function serialize(
  { version, epoch, packages, lock }: Pick<Sources, "version" | "epoch"> & {
    readonly packages: readonly Pick<NpmPackage, "name" | "version">[];
    readonly lock: Lock;
  },
): string {
  const bom = new Models.Bom();
  bom.metadata.timestamp = new Date(epoch * 1000);
  const product = new Models.Component(Enums.ComponentType.Application, "gateway", {
    version,
    bomRef: `gateway@${version}`,
  });
  bom.metadata.component = product;
  const deno = `deno@${Deno.version.deno}`;
  bom.components.add(
    new Models.Component(Enums.ComponentType.Platform, "deno", {
      version: Deno.version.deno,
      bomRef: deno,
      purl: `pkg:github/denoland/deno@v${Deno.version.deno}`,
    }),
  );
  for (const { name, version } of packages) {
    bom.components.add(
      new Models.Component(Enums.ComponentType.Library, name, {
        version,
        bomRef: `${name}@${version}`,
        purl: `pkg:npm/${name.replace("@", "%40")}@${version}`,
        hashes: hashesOf(lock, `${name}@${version}`),
      }),
    );
  }
  for (const { bomRef } of bom.components) product.dependencies.add(bomRef);
  const format = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  return `${new Serialize.JsonSerializer(format).serialize(bom, { sortLists: true, space: 2 })}\n`;
}

/** Reads `sha512-<base64>`. The lock's key may continue with the versions of peers. */
function hashesOf({ npm }: Lock, id: string): Models.HashDictionary {
  const entry = Object.entries(npm).find(([key]) => key === id || key.startsWith(`${id}_`))?.[1];
  const digest = /^sha512-(?<base64>.+)$/.exec(entry?.integrity ?? "")?.groups?.["base64"];
  if (digest === undefined) throw new Error(`Cannot describe ${id}: deno.lock has no hash of it`);
  const hashes = new Models.HashDictionary();
  hashes.set(Enums.HashAlgorithm["SHA-512"], Buffer.from(digest, "base64").toString("hex"));
  return hashes;
}
