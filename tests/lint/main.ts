/**
 * Runs `deno lint`, and runs it again if the linter crashes: version 2.9 sometimes ends with SIGSEGV on files that it
 * passes a second later. Findings fail without a second run.
 *
 * @module
 */
const TRIES = 3;

for (let left = TRIES; left > 0; left--) {
  const { code, signal } = await new Deno.Command(Deno.execPath(), { args: ["lint", ...Deno.args] }).spawn()
    .status;
  const isCrash = signal === "SIGSEGV" || code === 139;
  if (!isCrash || left === 1) Deno.exit(code);
  await Deno.stderr.write(new TextEncoder().encode("deno lint has crashed: once more\n"));
}
