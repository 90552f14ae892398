/**
 * The build version that every executable reports.
 *
 * @module
 */

/** The release tag this source was built from, or `dev`; the release build rewrites this line. */
export const VERSION: string = "dev";

/** The source revision this was built from, empty when unknown; the release build rewrites this line. */
const REVISION: string = "";

/** The text of `--version`: the version alone, or with toolchain, platform and revision below it. */
export function describeVersion(options: { readonly verbose: boolean }): string {
  if (!options.verbose) return VERSION;
  const lines = [
    `version ${VERSION}`,
    `  deno: ${Deno.version.deno} (v8 ${Deno.version.v8}, typescript ${Deno.version.typescript})`,
    `  platform: ${Deno.build.os}/${Deno.build.arch}`,
  ];
  if (REVISION !== "") lines.push(`  revision: ${REVISION.slice(0, 12)}`);
  return lines.join("\n");
}
