import { userInfo } from "node:os";
import { createOpensshTarget, findSshd } from "./openssh.ts";

/** An SSH server on loopback that trusts one certificate authority and nothing else. */
export interface SshTarget {
  /** The system's sshd, or the server of this folder. */
  readonly kind: "openssh" | "embedded";
  readonly port: number;
  /** Its host key, as a line of authorized_keys. */
  readonly hostKeyLine: string;
  /** The account that can log in: the one that this process runs as. */
  readonly user: string;
  /** Ends the server and every command that it still runs. */
  close(): Promise<void>;
}

/** What a target trusts, and where it keeps its files. */
export interface SshTargetOptions {
  /** The public key of the certificate authority, as a line of authorized_keys. */
  readonly caPublicKeyLine: string;
  /** For each account the principals that may log in to it. */
  readonly principals: Readonly<Record<string, readonly string[]>>;
  /** A folder for the server's own files. */
  readonly dir: string;
  /** One kind only; without it the system's sshd where there is one, else the embedded server. */
  readonly forceKind?: SshTarget["kind"];
}

/** The name of the account that this process runs as. */
export function currentUser(): string {
  return userInfo().username;
}

/**
 * Starts a target that is ready to be connected to.
 *
 * @throws {Error} when it can't be started, or when REQUIRE_REAL_SERVERS=1 and sshd is not installed
 */
export async function startSshTarget(options: SshTargetOptions): Promise<SshTarget> {
  const sshd = findSshd();
  if (sshd !== undefined && options.forceKind !== "embedded") {
    return await createOpensshTarget(sshd, currentUser(), options);
  }
  if (options.forceKind === "openssh" || (options.forceKind === undefined && requiresRealServers())) {
    throw new Error("Cannot start the SSH target: sshd is not installed");
  }
  const { createEmbeddedTarget } = await import("./embedded.ts");
  return await createEmbeddedTarget(currentUser(), options);
}

/** The kinds that this machine can run, for tests that run over all of them. */
export function availableKinds(): readonly SshTarget["kind"][] {
  return findSshd() !== undefined || requiresRealServers() ? ["openssh", "embedded"] : ["embedded"];
}

function requiresRealServers(): boolean {
  return Deno.env.get("REQUIRE_REAL_SERVERS") === "1";
}
