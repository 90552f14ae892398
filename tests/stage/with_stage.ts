import { bundleAll } from "../../deploy/release/bundle.ts";
import { ROOT } from "./service_command.ts";
import { Stage, type StageOptions } from "./stage.ts";
import { createFolder } from "./folder.ts";

/** Runs a test on an installation in a temporary directory and deletes it afterwards. */
export async function withStage(
  options: Omit<StageOptions, "dir">,
  test: (stage: Stage) => Promise<void>,
): Promise<void> {
  await using dir = await createFolder();
  await using stage = await Stage.create({ ...options, dir: dir.path });
  await test(stage);
}

/** Bundles programs below a directory in the layout of the packages. */
export async function createBundles(dir: string, programs: readonly string[]): Promise<string> {
  const bundles = `${dir}/node_modules/gateway`;
  await bundleAll({ sources: ROOT, output: bundles }, programs);
  await Deno.copyFile(`${ROOT}deploy/installed/package.json`, `${bundles}/package.json`);
  await Deno.copyFile(`${ROOT}deploy/installed/deno.json`, `${dir}/deno.json`);
  return bundles;
}
