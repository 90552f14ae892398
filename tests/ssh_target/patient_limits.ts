import { DEFAULT_LIMITS, type SshLimits } from "../../broker/ssh/failures.ts";

/** The broker's limits with longer connect timeouts, for tests of other behavior on busy machines. */
export const PATIENT_LIMITS: SshLimits = {
  ...DEFAULT_LIMITS,
  connectMs: 60_000,
  handshakeMs: 60_000,
  channelMs: 60_000,
};
