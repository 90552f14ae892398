/**
 * What is asked about an SSH host.
 *
 * @module
 */

/** What a caller wants. `role`, `purpose` and `sessionMode` are as they came; unknown values are denied. */
export interface SshIntent {
  /** The effective caller. */
  readonly caller: string;
  readonly endUser: string;
  /** `null`: no filter. `[]`: a user in no group, to whom every host is denied. */
  readonly endUserGroups: readonly string[] | null;
  readonly host: string;
  readonly role: string;
  readonly purpose: string;
  readonly sessionMode: string;
  readonly command: string;
  /** The requested life of the certificate; not positive or above the cap: the cap. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  /** Empty is root; without `sudo`, and for a bastion, ignored. */
  readonly sudoUser: string;
  readonly pty: boolean;
  readonly fileTransfer: boolean;
}
