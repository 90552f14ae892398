/** Containers and images of a test, separate from those of the machine. */
import { join } from "node:path";
import { mustRun, runProgram } from "./machine.ts";

const CONTAINERS = `[containers]
default_ulimits = ["nofile=1024:1024","nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
`;

/** Stores containers, images and networks in a directory. */
export async function useStorage(folder: string): Promise<void> {
  const networks = join(folder, "networks");
  await Deno.mkdir(networks, { recursive: true });
  const storage = `[storage]\ndriver = "vfs"\ngraphroot = "${folder}/store"\nrunroot = "${folder}/run"\n`;
  await Deno.writeTextFile(join(folder, "storage.conf"), storage);
  const containers = `${CONTAINERS}network_config_dir = "${networks}"\n`;
  await Deno.writeTextFile(join(folder, "containers.conf"), containers);
  Deno.env.set("CONTAINERS_STORAGE_CONF", join(folder, "storage.conf"));
  Deno.env.set("CONTAINERS_CONF", join(folder, "containers.conf"));
}

/** Creates an image with a minimal Debian and some packages. */
export async function makeBase(
  { name, variant, packages, work, architecture }:
    & Readonly<Record<"name" | "variant" | "packages" | "work", string>>
    & { readonly architecture?: "amd64" | "arm64" },
): Promise<void> {
  const [ofDebian, ofImage] = architecture === undefined
    ? [[], []]
    : [[`--architectures=${architecture}`], [`--arch=${architecture}`]];
  const archive = join(work, `${name}.tar`);
  await mustRun(
    "mmdebstrap",
    ...["--quiet", `--variant=${variant}`, `--include=${packages}`, ...ofDebian, "bookworm", archive],
  );
  const container = (await mustRun("buildah", "from", ...ofImage, "scratch")).trim();
  await mustRun("buildah", "add", "--quiet", container, archive, "/");
  await mustRun("buildah", "config", ...ofImage, container);
  await mustRun("buildah", "commit", "--quiet", container, `localhost/${name}`);
  await mustRun("buildah", "rm", container);
}

/** Builds an index with one image and base for each architecture. Returns the directory of its OCI layout. */
export async function buildIndex(context: string, file: string, work: string): Promise<string> {
  const bases = ["localhost/base-amd64", "localhost/base-arm64"];
  await runProgram("buildah", "manifest", "rm", "bases");
  await mustRun("buildah", "manifest", "create", "bases", ...bases);
  const options = ["--isolation=chroot", "--quiet", "--build-arg=BASE=localhost/bases", "--manifest=index"];
  const platforms = "--platform=linux/amd64,linux/arm64";
  await mustRun("buildah", "build", ...options, platforms, `--file=${join(context, file)}`, context);
  const layout = join(work, "layout");
  await mustRun("buildah", "manifest", "push", "--quiet", "--all", "--format=oci", "index", `oci:${layout}`);
  return layout;
}

/** Builds an image from a directory and a base of {@linkcode makeBase}. */
export async function build(context: string, file: string, name: string, base = "base"): Promise<void> {
  const options = ["--isolation=chroot", "--quiet", "--format=docker", `--build-arg=BASE=localhost/${base}`];
  await mustRun("buildah", "build", ...options, `--tag=${name}`, `--file=${join(context, file)}`, context);
}
