/**
 * What is asked about an SSH host.
 *
 * @module
 */

/** What a caller wants. `role`, `purpose` and `sessionMode` are as they came; unknown values are denied. */
export interface SshIntent {
  /** The effective caller. */
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** `null`: no filter. `[]`: a user in no group, to whom every host is denied. */
  readonly endUserGroups: readonly string[] | null;
  /** Logical name. */
  readonly host: string;
  /** `target` or `bastion`. */
  readonly role: string;
  /** `oneshot` or `session`. */
  readonly purpose: string;
  /** Of a session: `exec`, `shell` or `pty`. */
  readonly sessionMode: string;
  /** Empty for a session or a bastion. */
  readonly command: string;
  /** The requested life of the certificate; not positive or above the cap: the cap. */
  readonly ttlSeconds: number;
  /** To be elevated. */
  readonly sudo: boolean;
  /** Empty is root; without `sudo`, and for a bastion, ignored. */
  readonly sudoUser: string;
  /** With a terminal. */
  readonly pty: boolean;
  /** To move a file. */
  readonly fileTransfer: boolean;
  /** SHA-256 of what the transfer writes, as the broker says; empty: not said, or nothing is written. */
  readonly contentSha256: string;
}
