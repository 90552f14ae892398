/**
 * Makes what is shipped, in `dist/`: a Debian package for each role, a tarball, the bill of materials, checksums, and
 * executables where their base is to be had: `deno task release [--version 0.1.0] [--output folder] [--allow-dirty]`;
 * for amd64 and arm64, or for exactly the architectures of the Deno programs that `--runtime` names; with `--mcp-name org.example/gateway --image registry.example.org/namespace/gateway` also the entry of the MCP registry.
 *
 * @module
 */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { writeAllSync } from "@gateway/shared/text";
import sharedManifest from "../shared/deno.json" with { type: "json" };
import { bundleAll } from "./release/bundle.ts";
import { writeChecksums } from "./release/checksums.ts";
import { buildDebian } from "./release/debian.ts";
import { prepareImages } from "./release/image.ts";
import { PACKAGES, RUNTIME } from "./release/packages.ts";
import { run } from "./release/run.ts";
import { architectureOf, findRuntimes } from "./release/runtimes.ts";
import { describeMaterials } from "./release/sbom.ts";
import { copySources, type Sources } from "./release/sources.ts";
import { describeServer } from "./release/server_json.ts";
import { stage, write } from "./release/stage.ts";

const VERSION = /^\d+\.\d+\.\d+(?:-[a-z0-9.]+)?$/;
const PROGRAM_MODE = 0o755;

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      version: { type: "string", default: sharedManifest.version },
      output: { type: "string", default: "dist" },
      "allow-dirty": { type: "boolean", default: false },
      "mcp-name": { type: "string" },
      image: { type: "string" },
      runtime: { type: "string", multiple: true, default: [] },
    },
  });
  const { version } = values;
  if (!VERSION.test(version)) {
    throw new TypeError(`Cannot release ${JSON.stringify(version)}: expected x.y.z`);
  }
  const { "mcp-name": name, image } = values;
  const entry = name === undefined && image === undefined
    ? undefined
    : describeServer({ name: name ?? "", image: image ?? "" }, version);
  const workspace = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
  const output = resolve(workspace, values.output);
  const work = await Deno.makeTempDir({ prefix: "release-" });
  try {
    const folder = join(work, "sources");
    const request = { workspace, folder, version, allowDirty: values["allow-dirty"] };
    for (
      const name of await release(await copySources(request), {
        ...{ work, output, entry },
        named: values.runtime,
      })
    ) {
      writeAllSync(Deno.stdout, `${join(output, name)}\n`);
    }
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** What {@linkcode release} makes, and where; folders absolute. */
interface Wanted {
  /** A folder of its own to work in. */
  readonly work: string;
  readonly output: string;
  readonly entry: string | undefined;
  /** Deno programs to release; empty: those of this version for each architecture. */
  readonly named: readonly string[];
}

/** Makes every artefact, and gives the names of their files. */
async function release(
  sources: Sources,
  { work, output, entry, named }: Wanted,
): Promise<readonly string[]> {
  const { folder, version, epoch } = sources;
  const runtimes = await findRuntimes(named, work);
  const bundles = join(work, "bundles");
  await bundleAll({ sources: folder, output: bundles });
  await Deno.mkdir(output, { recursive: true });
  const whole = join(work, "whole");
  const files: string[] = [];
  for (const packaged of PACKAGES) {
    const root = join(work, packaged.name);
    await stage(packaged, { sources: folder, bundles, root });
    await stage(packaged, { sources: folder, bundles, root: whole });
    files.push(await buildDebian(packaged, { root, output, version, architecture: "all", epoch }));
  }
  for (const { architecture, path } of runtimes) {
    const program = await Deno.readFile(path);
    const root = join(work, `${RUNTIME.name}-${architecture}`);
    for (const each of [root, whole]) await write(join(each, "usr/lib/gateway/deno"), program, PROGRAM_MODE);
    files.push(
      await buildDebian(RUNTIME, { root, output, version: Deno.version.deno, architecture, epoch }),
      await pack(`gateway-${version}-linux-${architecture}.tar.gz`, whole, { output, epoch }),
    );
  }
  if ((Deno.env.get("DENORT_BIN") ?? "") !== "") files.push(await compileAll(sources, { output }));
  await write(join(output, `gateway-${version}.cdx.json`), await describeMaterials(sources));
  files.push(`gateway-${version}.cdx.json`);
  if (entry !== undefined) {
    await write(join(output, "server.json"), entry);
    files.push("server.json");
  }
  await prepareImages(sources, { work, output, runtimes });
  return [...files, await writeChecksums(output, files)];
}

/** The executables of `deno task compile`, which bring their permission sets with them. */
async function compileAll(
  { folder, version, epoch }: Sources,
  { output }: Pick<Wanted, "output">,
): Promise<string> {
  await run(Deno.execPath(), ["task", "--quiet", "compile"], { cwd: folder });
  const name = `gateway-${version}-executables-linux-${await architectureOf(Deno.execPath())}.tar.gz`;
  await pack(name, join(folder, "dist"), { output, epoch });
  return name;
}

/** Everything in one archive, for systems without `dpkg`, the same bytes from the same sources. */
async function pack(
  name: string,
  root: string,
  { output, epoch }: { readonly output: string; readonly epoch: number },
): Promise<string> {
  const order = ["--sort=name", `--mtime=@${epoch}`, "--owner=0", "--group=0", "--numeric-owner"];
  const args = [...order, "--use-compress-program=gzip -n", "-cf", join(output, name), "-C", root, "."];
  await run("tar", args, { cwd: root });
  return name;
}
