/**
 * What is decided about an SSH intent.
 *
 * @module
 */
import type { Enforcement, Role } from "../wire/sign.ts";
import type { CompiledHost } from "./compile.ts";

/** An intent that is denied. */
export interface DeniedSsh {
  /** No certificate. */
  readonly kind: "denied";
  /** For people; host, caller and user in quotes. */
  readonly reason: string;
  /** `deny:<pattern>`, `allowlist:no-match`, `shell-parse:<reason>`, or empty when no rule denied. */
  readonly matchedRule: string;
  /** Empty unless a command policy was evaluated. */
  readonly enforcement: Enforcement | "";
  /** The host, when there is one of this name. */
  readonly host: CompiledHost | undefined;
}

/** An intent that is allowed, and what its certificate carries. */
export interface AllowedSsh {
  /** A certificate, once nothing else is in the way. */
  readonly kind: "allowed";
  readonly host: CompiledHost;
  /** Whether the host is the target or a hop on the way. */
  readonly role: Role;
  /** Elevated where sudo was asked for; empty: none. */
  readonly forceCommand: string;
  /** On a sealed host, the command of a session as its envelope has it, elevated where asked for; else empty. */
  readonly sealedCommand: string;
  /** What an envelope of v3 lets that command read: `none`, `watch` or a SHA-256. */
  readonly sealedStdin: string;
  /** The prefix that the broker puts before the commands of a session; empty for a one-shot command. */
  readonly elevationPrefix: string;
  /** The prefix for the KeyId, one-shot commands included; empty: not elevated. */
  readonly sudoPrefix: string;
  /** For the audit record: `sudo:<user>` or empty. */
  readonly elevation: string;
  /** The life of the certificate, within all caps. */
  readonly ttlSeconds: number;
  /** A second human has to approve before a certificate is issued; never in audit mode. */
  readonly requireApproval: boolean;
  /** It would need approval, were it not for a live waiver. */
  readonly approvalWaived: boolean;
  /** As in `matched_rule` on the wire; empty when no rule decided. */
  readonly matchedRule: string;
  /** Empty unless a command policy was evaluated. */
  readonly enforcement: Enforcement | "";
  /** What enforcement would have done, in audit mode. */
  readonly warning: string;
  /** In audit mode: enforcement would have denied it. */
  readonly wouldDeny: boolean;
  /** In audit mode: enforcement would have asked a human. */
  readonly wouldRequireApproval: boolean;
  readonly pty: boolean;
}

/** What is decided about an intent. */
export type SshDecision = DeniedSsh | AllowedSsh;

/** What a caller wants. `role`, `purpose` and `sessionMode` are as they came; unknown values are denied. */
export interface SshIntent {
  readonly caller: string;
  /** Empty: none. */
  readonly endUser: string;
  /** `null`: no filter. `[]`: a user in no group, to whom every host is denied. */
  readonly endUserGroups: readonly string[] | null;
  readonly host: string;
  readonly role: string;
  readonly purpose: string;
  /** Of a session: `exec`, `shell` or `pty`. */
  readonly sessionMode: string;
  /** Empty for a session or a bastion. */
  readonly command: string;
  /** The requested life of the certificate; not positive or above the cap: the cap. */
  readonly ttlSeconds: number;
  readonly sudo: boolean;
  /** Empty is root; without `sudo`, and for a bastion, ignored. */
  readonly sudoUser: string;
  readonly pty: boolean;
  readonly fileTransfer: boolean;
  /** SHA-256 of what the transfer writes, as the broker says; empty: not said, or nothing is written. */
  readonly contentSha256: string;
}
