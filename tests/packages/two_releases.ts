import { mustRun } from "./machine.ts";

/** The version that is installed first. */
export const OLD = "0.1.0";
/** The version of the upgrade. */
export const NEW = "0.1.1";

export async function release(version: string, output: string): Promise<void> {
  const args = ["task", "--quiet", "release", "--version", version, "--output", output, "--allow-dirty"];
  args.push("--runtime", Deno.execPath());
  await mustRun(Deno.execPath(), ...args);
}

/** Creates packages of the next version from those of the first. They differ only in the version, which saves time. */
export async function releaseNext(oldOutput: string, output: string): Promise<void> {
  const script = `set -e; mkdir -p "$2"; cd "$2"
    for file in "$1"/*_${OLD}_*.deb; do
      dpkg-deb -R "$file" parts
      sed -i 's/${OLD}/${NEW}/g' parts/DEBIAN/control
      grep -rlF 'VERSION = "${OLD}"' parts | xargs -r sed -i 's/VERSION = "${OLD}"/VERSION = "${NEW}"/'
      dpkg-deb --root-owner-group -Znone --build parts "$(basename "$file" | sed 's/${OLD}/${NEW}/')"
      rm -r parts
    done`;
  await mustRun("sh", "-c", script, "sh", oldOutput, output);
}
