import { join } from "node:path";
import type { CaKey } from "@gateway/shared/ca";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { randomSerial, systemClock, systemRandom } from "@gateway/shared/clock";
import {
  CERTIFICATE_ALGORITHM,
  ed25519PublicKey,
  encodeOpensshPrivateKey,
  formatCertificate,
  issueCertificate,
} from "@gateway/shared/ssh";
import { type OwnHost, sshTo } from "../over_ssh.ts";

const SECONDS = 120;
const SKEW_SECONDS = 30;
/** So often a host is tried that has read its config anew, once a second: until then nothing listens there. */
const TRIES = 20;
const NO_LISTENER = /connection (?:refused|reset|closed)/i;

interface LoginTrial {
  readonly name: string;
  readonly host: OwnHost & { readonly user: string; readonly principal?: string };
  readonly principal: string;
  readonly caKey: CaKey;
}

/**
 * Logs in to a host with a certificate as brokers get them, that is good for two minutes and one command, `echo`. Waits
 * for an sshd that is just starting anew.
 *
 * @throws {AppError} `upstream_failure` when the host does not let it in
 */
export async function tryLogin({ name, host, principal, caKey }: LoginTrial): Promise<void> {
  const seed = systemRandom.bytes(32);
  const answer = `gateway-${systemRandom.bytes(8).toHex()}`;
  const now = Math.floor(systemClock.now() / 1000);
  const certificate = await issueCertificate({
    publicKey: ed25519PublicKey(seed).subarray(-32),
    nonce: systemRandom.bytes(32),
    serial: randomSerial(systemRandom),
    keyId: `broker-ctl enrol host=${name}`,
    principals: [principal],
    validAfter: now - SKEW_SECONDS,
    validBefore: now + SECONDS,
    criticalOptions: { "force-command": `echo ${answer}` },
    extensions: [],
  }, caKey);
  const folder = await Deno.makeTempDir({ prefix: "gateway-enrol-" });
  try {
    const [key, cert] = [join(folder, "key"), join(folder, "key-cert.pub")];
    await Deno.writeTextFile(key, encodeOpensshPrivateKey(seed, "enrol"), { mode: 0o600 });
    await Deno.writeTextFile(cert, formatCertificate(certificate), { mode: 0o600 });
    const options = {
      CertificateFile: cert,
      IdentitiesOnly: "yes",
      IdentityAgent: "none",
      PreferredAuthentications: "publickey",
    };
    const login = {
      login: host.user,
      words: ["-i", key, ...Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`])],
      command: "true",
      input: "",
    };
    let why = "";
    for (let tries = 1; tries <= TRIES; tries++) {
      const { stdout, stderr } = await sshTo(name, host, login);
      if (stdout.includes(answer)) return;
      why = stderr.trim().split("\n").at(-1) ?? "";
      if (!NO_LISTENER.test(why.slice(why.lastIndexOf("\n") + 1))) break;
      await systemClock.sleep(1_000);
    }
    throw new AppError(
      "upstream_failure",
      `${quoteText(name)} does not let ${host.user} in with a certificate (${CERTIFICATE_ALGORITHM}): ${
        why === "" ? "another command ran than its own" : why
      }`,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
