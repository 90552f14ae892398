/**
 * Creates the release in `dist/`: a Debian package for each role, a tarball, the documentation site, the bill of
 * materials and checksums. With `DENORT_BIN`, it also compiles executables. Usage: `deno task release [options]`
 *
 * @module
 */
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { writeAllSync } from "@gateway/shared/text";
import sharedManifest from "../shared/deno.json" with { type: "json" };
import { bundleAll } from "./release/bundle.ts";
import { buildDebian } from "./release/debian.ts";
import { prepareImages } from "./release/image.ts";
import { PACKAGES, RUNTIME } from "./release/packages.ts";
import { architectureOf, findRuntimes } from "./release/runtimes.ts";
import { describeMaterials } from "./release/sbom.ts";
import { copySources, type Sources } from "./release/sources.ts";
import { describeServer } from "./release/server_json.ts";
import { pack, PROGRAM_MODE, run, stage, write, writeChecksums } from "./release/stage.ts";

const VERSION = /^\d+\.\d+\.\d+(?:-[a-z0-9.]+)?$/;

const HELP = `Builds the packages, images and checksums of a release.

deno task release [options]
  --version X.Y.Z      version (default: ${sharedManifest.version})
  --output DIRECTORY   default: dist
  --allow-dirty        also with changes that are not committed
  --runtime FILE       Deno for another architecture; repeatable
  --mcp-name NAME      with --image: entry for an MCP registry
  --image NAME         name of the published image
`;

if (import.meta.main && Deno.args.includes("--help")) writeAllSync(Deno.stdout, HELP);
else if (import.meta.main) {
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
  if (!VERSION.test(version)) throw new TypeError(`Cannot release "${version}": expected x.y.z`);
  const { "mcp-name": name, image } = values;
  const entry = name === undefined && image === undefined
    ? undefined
    : describeServer({ name: name ?? "", image: image ?? "" }, version);
  const workspace = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
  const output = resolve(workspace, values.output);
  const work = await Deno.makeTempDir({ prefix: "release-" });
  try {
    const folder = join(work, "sources");
    const sources = await copySources({ workspace, folder, version, allowDirty: values["allow-dirty"] });
    const files = await release(sources, { work, output, entry, named: values.runtime });
    for (const name of files) writeAllSync(Deno.stdout, `${join(output, name)}\n`);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

/** Creates every artifact. Directories are absolute. @returns the names of the files */
async function release(
  sources: Sources,
  { work, output, entry, named }: {
    /** A private directory to work in. */
    readonly work: string;
    readonly output: string;
    readonly entry: string | undefined;
    /** Deno programs to release; empty: those of this version for each architecture. */
    readonly named: readonly string[];
  },
): Promise<readonly string[]> {
  const { folder, version, epoch } = sources;
  const runtimes = await findRuntimes(named, work);
  const bundles = join(work, "bundles");
  await bundleAll({ sources: folder, output: bundles });
  await Deno.mkdir(output, { recursive: true });
  const whole = join(work, "whole");
  const files: string[] = [];
  const archive = async (name: string, root: string, ...options: readonly string[]) => {
    await pack(join(output, name), root, { epoch, options: ["--use-compress-program=gzip -n", ...options] });
    files.push(name);
  };
  for (const packaged of PACKAGES) {
    const root = join(work, packaged.name);
    for (const each of [root, whole]) await stage(packaged, { sources: folder, bundles, root: each });
    files.push(await buildDebian(packaged, { root, output, version, architecture: "all", epoch }));
  }
  for (const { architecture, path } of runtimes) {
    const program = await Deno.readFile(path);
    const root = join(work, `${RUNTIME.name}-${architecture}`);
    for (const each of [root, whole]) await write(join(each, "usr/lib/gateway/deno"), program, PROGRAM_MODE);
    files.push(await buildDebian(RUNTIME, { root, output, version: Deno.version.deno, architecture, epoch }));
    // Everything, for systems without dpkg.
    await archive(`gateway-${version}-linux-${architecture}.tar.gz`, whole);
  }
  if ((Deno.env.get("DENORT_BIN") ?? "") !== "") {
    await run(Deno.execPath(), ["task", "--quiet", "compile"], { cwd: folder });
    const architecture = await architectureOf(Deno.execPath());
    await archive(`gateway-${version}-executables-linux-${architecture}.tar.gz`, join(folder, "dist"));
  }
  await run(Deno.execPath(), ["task", "--quiet", "docs", "--outDir", join(work, "docs")], { cwd: folder });
  await archive(`gateway-${version}-docs.tar.gz`, join(work, "docs"), "--mode=u=rwX,go=rX");
  await write(join(output, `gateway-${version}.cdx.json`), await describeMaterials(sources));
  files.push(`gateway-${version}.cdx.json`);
  if (entry !== undefined) {
    await write(join(output, "server.json"), entry);
    files.push("server.json");
  }
  await prepareImages(sources, { work, output, runtimes });
  return [...files, await writeChecksums(output, files)];
}
