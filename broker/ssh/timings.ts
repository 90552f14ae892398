import type { Histogram } from "@gateway/shared/service";

export interface SshTimings {
  /** From the first byte until the login, through all bastions. */
  readonly connect: Histogram;
  readonly exec: Histogram;
}
