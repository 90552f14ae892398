import { DEFAULT_LIMITS, type SshLimits } from "../../broker/ssh/failures.ts";

/** The broker's limits, with time for a busy machine to connect; for tests of something else than these limits. */
export const PATIENT_LIMITS: SshLimits = {
  ...DEFAULT_LIMITS,
  connectMs: 60_000,
  handshakeMs: 60_000,
  channelMs: 60_000,
};
