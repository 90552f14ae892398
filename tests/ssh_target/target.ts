import { userInfo } from "node:os";
import { createOpensshTarget, findSshd } from "./openssh.ts";
import type { SshTarget, SshTargetOptions } from "./ssh_target.ts";
import { SSHD_PROBLEM } from "./sshd_problem.ts";

export function currentUser(): string {
  return userInfo().username;
}

/**
 * Starts a target: the system's sshd if it is usable, otherwise the embedded server.
 *
 * @throws {Error} if it cannot start, or if REQUIRE_REAL_SERVERS=1 and sshd is not usable
 */
export async function startSshTarget(options: SshTargetOptions): Promise<SshTarget> {
  const sshd = findSshd();
  if (sshd !== undefined && SSHD_PROBLEM === "" && options.forceKind !== "embedded") {
    return await createOpensshTarget(sshd, currentUser(), options);
  }
  if (options.forceKind === "openssh" || (options.forceKind === undefined && requiresRealServers())) {
    throw new Error(`Cannot start the SSH target: ${SSHD_PROBLEM}`);
  }
  const { createEmbeddedTarget } = await import("./embedded.ts");
  return await createEmbeddedTarget(currentUser(), options);
}

/** The kinds that this machine can run, for tests that cover all kinds. */
export function availableKinds(): readonly SshTarget["kind"][] {
  return SSHD_PROBLEM === "" || requiresRealServers() ? ["openssh", "embedded"] : ["embedded"];
}

function requiresRealServers(): boolean {
  return Deno.env.get("REQUIRE_REAL_SERVERS") === "1";
}
