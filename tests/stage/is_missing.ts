/** True if a program is missing and tests may be skipped. Prints this once. */
export function isMissing(program: string, paths: readonly string[]): boolean {
  const isThere = paths.some((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
  if (isThere || Deno.env.get("REQUIRE_REAL_SERVERS") === "1") return false;
  Deno.stderr.writeSync(new TextEncoder().encode(`${program} is not installed: its tests are skipped\n`));
  return true;
}
