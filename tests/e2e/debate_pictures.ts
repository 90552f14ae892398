/**
 * Writes the screenshots of the debate's page for the documentation. `deno task docs:pictures`
 *
 * @module
 */
import { drawn, lookAtScreens } from "./debate_screens.ts";

const [directory = "docs/images"] = Deno.args;

await lookAtScreens(async ({ name, path }, open) => {
  if (name !== "found" && name !== "waiting") return;
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await open(path, { colorScheme, viewport: { width: 1440, height: 720 } });
    await drawn(page, name);
    await page.screenshot({ path: `${directory}/debate-${name}-${colorScheme}.png` });
    await page.context().close();
  }
});
