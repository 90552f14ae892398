/** Containers and images of a test's own: nothing of the machine's is touched. */
import { join } from "node:path";
import { mustRun } from "./machine.ts";

const CONTAINERS = `[containers]
default_ulimits = ["nofile=1024:1024","nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
`;

/** Has containers, images and networks kept in a folder. */
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

/** Makes an image that is the least Debian with some packages. */
export async function makeBase(
  { name, variant, packages, work }: Readonly<Record<"name" | "variant" | "packages" | "work", string>>,
): Promise<void> {
  const archive = join(work, `${name}.tar`);
  await mustRun(
    "mmdebstrap",
    ...["--quiet", `--variant=${variant}`, `--include=${packages}`, "bookworm", archive],
  );
  const container = (await mustRun("buildah", "from", "scratch")).trim();
  await mustRun("buildah", "add", "--quiet", container, archive, "/");
  await mustRun("buildah", "commit", "--quiet", container, `localhost/${name}`);
  await mustRun("buildah", "rm", container);
}

/** Builds an image of a folder on a base of {@linkcode makeBase}. */
export async function build(context: string, file: string, name: string, base = "base"): Promise<void> {
  const options = ["--isolation=chroot", "--quiet", "--format=docker", `--build-arg=BASE=localhost/${base}`];
  await mustRun("buildah", "build", ...options, `--tag=${name}`, `--file=${join(context, file)}`, context);
}
