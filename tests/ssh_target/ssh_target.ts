export interface SshTarget {
  /** The system's sshd, or the server in this directory. */
  readonly kind: "openssh" | "embedded";
  readonly port: number;
  /** The host key of the server, as a line of authorized_keys. */
  readonly hostKeyLine: string;
  /** The account that can log in, which is the account of this process. */
  readonly user: string;
  /** Stops the server and all commands that it still runs. */
  close(): Promise<void>;
}

export interface SshTargetOptions {
  /** The public key of the CA, as a line of authorized_keys. */
  readonly caPublicKeyLine: string;
  /** The principals of each account that may log in to it. */
  readonly principals: Readonly<Record<string, readonly string[]>>;
  /** A directory for files of the server. */
  readonly dir: string;
  /** A file of revoked keys. The system's sshd reads it, the embedded server does not. */
  readonly revokedKeys?: string;
  /** The required kind. By default the system's sshd if it is usable, otherwise the embedded server. */
  readonly forceKind?: SshTarget["kind"];
}
