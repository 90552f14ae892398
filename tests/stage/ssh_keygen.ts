/** True if tests with ssh-keygen run: if it exists, or if REQUIRE_REAL_SERVERS=1 forbids skipped tests. */
export function mustOrMayUseSshKeygen(): boolean {
  if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") return true;
  try {
    new Deno.Command("ssh-keygen", { args: ["-?"], stdout: "null", stderr: "null" }).outputSync();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
