import type { Histogram } from "@gateway/shared/service";

/** How long hosts take. */
export interface SshTimings {
  /** From the first byte until the login, through all bastions. */
  readonly connect: Histogram;
  /** A command, once connected. */
  readonly exec: Histogram;
}
