import { basename, join } from "node:path";
import { parseStandardJson } from "@gateway/shared/json";
import { type Executable, EXECUTABLES } from "./executables.ts";
import { bundle } from "./bundle.ts";
import type { Runtime } from "./runtimes.ts";
import type { Sources } from "./sources.ts";
import { pack, PROGRAM_MODE, write } from "./stage.ts";

/**
 * An executable of an image: a file that the kernel starts with Deno, and that imports the bundle of the
 * program.
 */
interface ImageProgram extends Pick<Executable, "name" | "member" | "permissionSet"> {
  /** A module of the sources, or the text of a generated one. */
  readonly entry: string | { readonly text: string };
}

const DENO = "usr/lib/gateway/deno";
const BIN = "usr/local/bin";
/** Deno leaves modules there to V8, as in the packages. */
const BUNDLES = "usr/lib/gateway/node_modules/gateway";
const HEALTH = "http://127.0.0.1:8000/healthz";

function programs(...names: readonly string[]): readonly ImageProgram[] {
  return EXECUTABLES.filter(({ name }) => names.includes(name)).map((executable) => {
    const { name, member, permissionSet, entry = `${member}/main.ts` } = executable;
    const [verb] = executable.arguments ?? [];
    if (verb === undefined) return { name, member, permissionSet, entry };
    const text = `import { runGateway } from "../broker/main.ts";\n` +
      `Deno.exit(await runGateway([${JSON.stringify(verb)}, ...Deno.args]));\n`;
    return { name, member, permissionSet, entry: { text } };
  });
}

const IMAGES: Readonly<Record<"root" | "bridge" | "debate", readonly ImageProgram[]>> = {
  root: programs(
    ...["gateway", "signer", "control-plane", "broker-ctl"],
    ...["broker", "mcp-broker", "mcp-broker-http"],
  ),
  bridge: programs("approval-bridge"),
  debate: [
    { name: "debate", member: "debate", permissionSet: "serve", entry: "debate/main.ts" },
    {
      ...{ name: "debate-healthy", member: "debate", permissionSet: "healthy" },
      entry: { text: `Deno.exit(await fetch("${HEALTH}").then(({ ok }) => ok ? 0 : 1, () => 1));\n` },
    },
  ],
};

/** Creates the build context of the images: their files, each in an archive, and the Containerfiles. */
export async function prepareImages(
  { folder, epoch }: Sources,
  { work, output, runtimes }: {
    readonly work: string;
    readonly output: string;
    readonly runtimes: readonly Runtime[];
  },
): Promise<void> {
  const context = join(output, "image");
  const packUsr = (root: string, name: string) => pack(join(context, name), root, { epoch, entry: "usr" });
  await Deno.mkdir(context, { recursive: true });
  for (const { architecture, path } of runtimes) {
    const root = join(work, `image-deno-${architecture}`);
    await write(join(root, DENO), await Deno.readFile(path), PROGRAM_MODE);
    await packUsr(root, `deno-${architecture}.tar`);
  }
  for (const [image, programs] of Object.entries(IMAGES)) {
    const root = join(work, `image-${image}`);
    const sets: Record<string, unknown> = { healthy: { net: ["127.0.0.1:8000"] } };
    for (const program of programs) {
      sets[program.permissionSet] ??= await readSet(folder, program);
      const entry = await bundleProgram(program, { folder, work, root });
      const start = `#!/${DENO} -P=${program.permissionSet}\nimport "/${entry}";\n`;
      await write(join(root, BIN, program.name), start, PROGRAM_MODE);
    }
    await write(join(root, BUNDLES, "package.json"), JSON.stringify({ name: "gateway", type: "module" }));
    const config = { nodeModulesDir: "manual", permissions: sets };
    await write(join(root, BIN, "deno.json"), JSON.stringify(config, null, 2));
    const file = image === "root" ? "Containerfile" : `Containerfile.${image}`;
    await write(join(context, file), await Deno.readFile(join(folder, "deploy/image", file)));
    await packUsr(root, `${image}.tar`);
  }
  await write(join(context, "data/.keep"), "");
}

async function readSet(folder: string, { member, permissionSet }: ImageProgram): Promise<unknown> {
  const { permissions } = parseStandardJson(await Deno.readTextFile(join(folder, member, "deno.json"))) as {
    readonly permissions: Readonly<Record<string, unknown>>;
  };
  const set = permissions[permissionSet];
  if (set !== undefined) return set;
  throw new Error(`Cannot make an image: ${member} has no permission set ${permissionSet}`);
}

/** Returns the path of the module to start with, in the image. */
async function bundleProgram(
  { name, member, entry }: ImageProgram,
  { folder, work, root }: { readonly folder: string; readonly work: string; readonly root: string },
): Promise<string> {
  let module = entry;
  if (typeof module !== "string") {
    const path = `deploy/image_${name.replaceAll("-", "_")}.ts`;
    await Deno.writeTextFile(join(folder, path), module.text);
    module = path;
  }
  const output = join(work, `image-bundle-${name}`);
  await bundle(member, [module], { sources: folder, output });
  for await (const { name: file } of Deno.readDir(output)) {
    // The start module imports the bundle, so the bundle is not the main module.
    const text = (await Deno.readTextFile(join(output, file))).replaceAll("import.meta.main", "true");
    await write(join(root, BUNDLES, name, file), text);
  }
  return join(BUNDLES, name, basename(module).replace(/\.ts$/, ".js"));
}
