import { createHash } from "node:crypto";
import { join } from "node:path";

const NAME = "SHA256SUMS";

/**
 * Writes the checksums of files into their folder, as `sha256sum --check` reads them.
 *
 * @returns the name of the file
 */
export async function writeChecksums(folder: string, files: readonly string[]): Promise<string> {
  const lines: string[] = [];
  for (const file of files.toSorted()) {
    const digest = createHash("sha256").update(await Deno.readFile(join(folder, file))).digest("hex");
    lines.push(`${digest}  ${file}\n`);
  }
  await Deno.writeTextFile(join(folder, NAME), lines.join(""));
  return NAME;
}
