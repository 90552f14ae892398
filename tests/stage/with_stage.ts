import { Stage, type StageOptions } from "./stage.ts";

/** Runs a test on a set-up in a temporary folder; nothing of it is left afterwards. */
export async function withStage(
  options: Omit<StageOptions, "dir">,
  test: (stage: Stage) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "gateway-test-" });
  try {
    await using stage = await Stage.create({ ...options, dir });
    await test(stage);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}
