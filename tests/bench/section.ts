import { bundleAll } from "../../deploy/release/bundle.ts";
import { ROOT } from "../stage/service_command.ts";
import { editConfig, Stage, type StageOptions } from "../stage/stage.ts";
import type { Row } from "./row.ts";

/** One part of the benchmark: it sets up what it needs and leaves nothing running. */
export type Section = (context: SectionContext) => Promise<readonly Row[]>;

/** What a {@linkcode Section} is given. */
export interface SectionContext {
  /** An empty folder of its own, removed afterwards. */
  readonly dir: string;
  readonly say: (text: string) => void;
}

/** A set-up in the folder of a section, without the limit of sign requests: it would be what is measured. */
export async function createStage(dir: string, options: Omit<StageOptions, "dir"> = {}): Promise<Stage> {
  const stage = await Stage.create({ ...options, dir });
  await editConfig(stage.init.signer_config, [{ path: ["sign_rate_limit_per_min"] }]);
  return stage;
}

/** The same, whose services run as packages have them: in bundles, without a cache. */
export async function createInstalledStage(
  dir: string,
  programs: readonly string[],
  options: Omit<StageOptions, "dir" | "bundles"> = {},
): Promise<Stage> {
  const bundles = `${dir}/node_modules/gateway`;
  await bundleAll({ sources: ROOT, output: bundles }, programs);
  await Deno.copyFile(`${ROOT}deploy/installed/package.json`, `${bundles}/package.json`);
  await Deno.copyFile(`${ROOT}deploy/installed/deno.json`, `${dir}/deno.json`);
  return await createStage(dir, { ...options, bundles });
}
