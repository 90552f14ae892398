import type { CaKey } from "@gateway/shared/ca";
import { AppError, errorText } from "@gateway/shared/errors";
import { type OwnHost, runOverSsh, sshTo } from "../kit/over_ssh.ts";
import { type EnrolOptions, formatEnrolScript } from "./enrol_script.ts";
import { join } from "node:path";
import { quoteText } from "@gateway/shared/text";
import { randomSerial, systemClock, systemRandom } from "@gateway/shared/clock";
import {
  CERTIFICATE_ALGORITHM,
  ed25519PublicKey,
  encodeOpensshPrivateKey,
  formatCertificate,
  issueCertificate,
} from "@gateway/shared/ssh";

const SEE_LOG = "its sshd wrote why: journalctl -t sshd -n 20, or its auth log, there";
/** The host waits this long for an order to keep a change: an operator who is locked out can't undo it. */
export const CONFIRM_SECONDS = 120;

/**
 * Changes the keys that a host trusts, tries a login, and undoes the change if the login fails. The host undoes it by
 * itself unless it is told to keep it.
 *
 * @param key signs the certificate of the login; absent: no login is tried
 */
export async function carryOut({ name, host, login, options, key }: {
  readonly name: string;
  readonly host: LoginHost;
  readonly login: string;
  readonly options: EnrolOptions;
  readonly key: CaKey | undefined;
}) {
  const onHost = (options: EnrolOptions) =>
    runOverSsh(name, host, { script: formatEnrolScript(options).join("\n"), login });
  const tried = options.mode === "add" && key !== undefined;
  const { code, lines } = await onHost({ ...options, ...tried && { confirmSeconds: CONFIRM_SECONDS } });
  if (code !== 0 || !tried) return { done: code === 0, tried: false, lines };
  try {
    await tryLogin(name, host, options.principal, key);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const undone = await onHost({ ...options, mode: "undo" });
    const back = undone.code === 0
      ? "everything was taken back"
      : `the host takes everything back by itself within ${CONFIRM_SECONDS} seconds`;
    return { done: false, tried, lines: [errorText(error), SEE_LOG, back] };
  }
  const kept = await onHost({ ...options, mode: "keep" });
  const said = `a certificate for ${options.principal} logged in as ${host.user}`;
  return { done: kept.code === 0, tried, lines: [...lines, ...kept.lines, said] };
}

const SECONDS = 120;
const SKEW_SECONDS = 30;
/** Once a second: an sshd that reloads its config does not listen for a moment. */
const TRIES = 20;
const NO_LISTENER = /connection (?:refused|reset|closed)/i;

type LoginHost = OwnHost & { readonly user: string };

/**
 * Logs in to a host with a certificate of two minutes and one command, `echo`. Waits for an sshd that restarts.
 *
 * @throws {AppError} `upstream_failure` if the host rejects the certificate
 */
async function tryLogin(name: string, host: LoginHost, principal: string, caKey: CaKey): Promise<void> {
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
    const words = [
      "-i",
      key,
      ...Object.entries(options).flatMap(([name, value]) => ["-o", `${name}=${value}`]),
    ];
    const login = { login: host.user, words, command: "true", input: "" };
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
