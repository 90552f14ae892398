import { join } from "node:path";
import { parseStandardJson } from "@gateway/shared/json";
import { bundleOne } from "./bundle.ts";
import { run } from "./run.ts";
import type { Runtime } from "./runtimes.ts";
import type { Sources } from "./sources.ts";
import { write } from "./stage.ts";

/**
 * A program of an image: a file that the kernel starts with Deno, under the permission set of the name, and that imports
 * the bundle.
 */
interface ImageProgram {
  readonly name: string;
  readonly member: string;
  readonly permissionSet: string;
  /** A module of the sources; or the text of one, for what has no module of its own. */
  readonly entry: string | { readonly text: string };
}

const DENO = "usr/lib/gateway/deno";
const BIN = "usr/local/bin";
/** Where Deno leaves modules to V8, as in the packages. */
const BUNDLES = "usr/lib/gateway/node_modules/gateway";
const PROGRAM_MODE = 0o755;
const HEALTH = "http://127.0.0.1:8000/healthz";

/** The broker under a name that says which frontend it is. */
function frontend(name: string, permissionSet: string, verb: string): ImageProgram {
  const text = `import { runGateway } from "../broker/main.ts";\n` +
    `Deno.exit(await runGateway([${JSON.stringify(verb)}, ...Deno.args]));\n`;
  return { name, member: "broker", permissionSet, entry: { text } };
}

const IMAGES: Readonly<Record<"root" | "bridge" | "debate", readonly ImageProgram[]>> = {
  root: [
    { name: "gateway", member: "broker", permissionSet: "gateway", entry: "deploy/gateway.ts" },
    { name: "signer", member: "signer", permissionSet: "signer", entry: "signer/main.ts" },
    {
      name: "control-plane",
      member: "control_plane",
      permissionSet: "control-plane",
      entry: "control_plane/main.ts",
    },
    { name: "broker-ctl", member: "ctl", permissionSet: "broker-ctl", entry: "ctl/main.ts" },
    frontend("broker", "broker", "serve-http"),
    frontend("mcp-broker", "broker-mcp", "serve-mcp"),
    frontend("mcp-broker-http", "broker-mcp-http", "serve-mcp-http"),
  ],
  bridge: [
    {
      name: "approval-bridge",
      member: "ctl",
      permissionSet: "approval-bridge",
      entry: "ctl/bridge/main.ts",
    },
  ],
  debate: [
    { name: "debate", member: "debate", permissionSet: "serve", entry: "debate/main.ts" },
    {
      name: "debate-healthy",
      member: "debate",
      permissionSet: "healthy",
      entry: { text: `Deno.exit(await fetch("${HEALTH}").then(({ ok }) => ok ? 0 : 1, () => 1));\n` },
    },
  ],
};

/** Makes the folder that the images are built in: their files, each in an archive, and the Containerfiles. */
export async function prepareImages(
  { folder, epoch }: Sources,
  { work, output, runtimes }: {
    readonly work: string;
    readonly output: string;
    readonly runtimes: readonly Runtime[];
  },
): Promise<void> {
  const context = join(output, "image");
  const pack = async (root: string, archive: string) => {
    const order = ["--sort=name", `--mtime=@${epoch}`, "--owner=0", "--group=0", "--numeric-owner"];
    await run("tar", [...order, "-cf", join(context, archive), "-C", root, "usr"], { cwd: root });
  };
  await Deno.mkdir(context, { recursive: true });
  for (const { architecture, path } of runtimes) {
    const root = join(work, `image-deno-${architecture}`);
    await write(join(root, DENO), await Deno.readFile(path), PROGRAM_MODE);
    await pack(root, `deno-${architecture}.tar`);
  }
  for (const [image, programs] of Object.entries(IMAGES)) {
    const root = join(work, `image-${image}`);
    const sets: Record<string, unknown> = { healthy: { net: ["127.0.0.1:8000"] } };
    for (const program of programs) {
      sets[program.permissionSet] ??= await readSet(folder, program);
      const bundle = join(BUNDLES, `${program.name}.js`);
      await write(join(root, bundle), await bundleText(program, { folder, work }));
      const start = `#!/${DENO} -P=${program.permissionSet}\nimport "/${bundle}";\n`;
      await write(join(root, BIN, program.name), start, PROGRAM_MODE);
    }
    await write(join(root, BUNDLES, "package.json"), JSON.stringify({ name: "gateway", type: "module" }));
    const config = { nodeModulesDir: "manual", permissions: sets };
    await write(join(root, BIN, "deno.json"), JSON.stringify(config, null, 2));
    const file = image === "root" ? "Containerfile" : `Containerfile.${image}`;
    await write(join(context, file), await Deno.readFile(join(folder, "deploy/image", file)));
    await pack(root, `${image}.tar`);
  }
  await write(join(context, "data/.keep"), "");
}

async function readSet(folder: string, { member, permissionSet }: ImageProgram): Promise<unknown> {
  const manifest = parseStandardJson(await Deno.readTextFile(join(folder, member, "deno.json")));
  const set =
    (manifest as { readonly permissions: Readonly<Record<string, unknown>> }).permissions[permissionSet];
  if (set === undefined) {
    throw new Error(`Cannot make an image: ${member} has no permission set ${permissionSet}`);
  }
  return set;
}

async function bundleText(
  { name, member, entry }: ImageProgram,
  { folder, work }: { readonly folder: string; readonly work: string },
): Promise<string> {
  let module = entry;
  if (typeof module !== "string") {
    const path = `deploy/image_${name.replaceAll("-", "_")}.ts`;
    await Deno.writeTextFile(join(folder, path), module.text);
    module = path;
  }
  const bundled = join(work, `${name}.js`);
  await bundleOne({ entry: module, member }, { sources: folder, output: bundled });
  // It is imported, and no main module itself; modules beside the entry have been told that they are none.
  return (await Deno.readTextFile(bundled)).replaceAll("import.meta.main", "true");
}
