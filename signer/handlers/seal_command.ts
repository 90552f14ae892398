import { AppError } from "@gateway/shared/errors";
import { mintEnvelope } from "@gateway/shared/envelope";
import type { Allowed, SignContext } from "./sign_context.ts";

/**
 * The envelope of a command that a session on a sealed host is about to run: of a preflight alone, and never of what
 * waits for a human, because the host asks nobody again. An approval that the request brings does not count here.
 *
 * @throws {AppError} `denied` without a key, which loading the config refuses
 */
export function sealCommand(
  { ports, snapshot, request }: SignContext,
  { host, sealedCommand, sealedStdin, requireApproval }: Allowed,
): string | undefined {
  if (!request.preflight || requireApproval || host.seal === undefined || sealedCommand === "") {
    return undefined;
  }
  const { envelopeKey: key } = snapshot;
  if (key === undefined) throw new AppError("denied", "the signer has no envelope key");
  return mintEnvelope(
    { host: host.name, command: sealedCommand, stdin: sealedStdin },
    { key, format: host.seal.format, now: ports.clock.now(), random: ports.random },
  );
}
