import { AppError } from "@gateway/shared/errors";
import { parseCertificate, parseEd25519PublicKey } from "@gateway/shared/ssh";

const FORWARDING = "permit-port-forwarding";

/** What a certificate must agree with. */
export interface ExpectedCertificate {
  /** The ephemeral key that was sent, an authorized_keys line. */
  readonly publicKey: string;
  /** The serial beside the certificate in the answer. */
  readonly serial: bigint;
  /** What it was asked for: one command, the commands of a session, or to pass through to another host. */
  readonly use: "command" | "session" | "forwarding";
  readonly host: string;
}

/** What a certificate says that its answer does not. */
interface CheckedCertificate {
  /** The shim that the commands of a session go through, as the host calls it; `undefined`: they go through none. */
  readonly shim: string | undefined;
}

/**
 * Checks that a certificate is the one that was asked for: made for our key, carrying the serial that the
 * audit records will name, and locked to a command, or as a bastion's to forwarding. The signer is trusted to
 * decide; this guards against one that mixes up its answers, and against a certificate that would open a shell.
 *
 * @throws {AppError} `upstream_failure` naming the first thing that differs
 */
export function checkCertificate(line: string, expected: ExpectedCertificate): CheckedCertificate {
  const certificate = parse(line);
  if (certificate.kind !== "user") throw refused("another kind");
  if (!isEqual(certificate.publicKey, parseEd25519PublicKey(expected.publicKey))) {
    throw refused("another public key");
  }
  if (certificate.serial !== expected.serial) throw refused("another serial");
  const forced = certificate.criticalOptions["force-command"] ?? "";
  switch (expected.use) {
    case "command":
      if (forced === "") throw refused("no force-command");
      return { shim: undefined };
    case "session":
      return { shim: forced === "" ? undefined : shimOf(forced, expected.host) };
    case "forwarding":
      if (certificate.extensions.join() !== FORWARDING) throw refused("other permissions than a bastion's");
      return { shim: undefined };
    default:
      return expected.use satisfies never;
  }
}

/** The session of a sealed host is locked to a shim that speaks for that host, and to nothing else. */
function shimOf(forced: string, host: string): string {
  const [shim = "", named, ...rest] = forced.split(" ");
  if (shim === "" || named !== host || rest.length > 0) throw refused("a force-command for a session");
  return shim;
}

function parse(line: string): ReturnType<typeof parseCertificate> {
  try {
    return parseCertificate(line);
  } catch (cause) {
    throw new AppError("upstream_failure", "signing service returned an unreadable certificate", { cause });
  }
}

function refused(what: string): AppError {
  return new AppError("upstream_failure", `signing service returned a certificate with ${what}`);
}

function isEqual(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at]);
}
