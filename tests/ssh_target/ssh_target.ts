export interface SshTarget {
  /** The system's sshd, or the server in this directory. */
  readonly kind: "openssh" | "embedded";
  readonly port: number;
  /** Its host key, as a line of authorized_keys. */
  readonly hostKeyLine: string;
  /** The account that can log in: the one that this process runs as. */
  readonly user: string;
  /** Ends the server and every command that it still runs. */
  close(): Promise<void>;
}

export interface SshTargetOptions {
  /** The public key of the certificate authority, as a line of authorized_keys. */
  readonly caPublicKeyLine: string;
  /** For each account the principals that may log in to it. */
  readonly principals: Readonly<Record<string, readonly string[]>>;
  /** A directory for files of the server. */
  readonly dir: string;
  /** A file of revoked keys, which the system's sshd looks at and the embedded server does not. */
  readonly revokedKeys?: string;
  /** One kind only; without it the system's sshd where it can be used, else the embedded server. */
  readonly forceKind?: SshTarget["kind"];
}
