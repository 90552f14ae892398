import { run } from "./run.ts";

/** A SoftHSM token with keys that were created in it and cannot be read. */
export interface Pkcs11Token {
  /** Path of the token's module without links, which `ssh-agent -P` compares. */
  readonly module: string;
  /** Environment with which the module finds the token. */
  readonly env: Readonly<Record<string, string>>;
  /** A program that prints the PIN, for SSH_ASKPASS. */
  readonly askPin: string;
}

const PIN = "1234";
const MODULE = "/usr/lib/softhsm/libsofthsm2.so";
const PROGRAMS = [MODULE, "/usr/bin/pkcs11-tool", "/usr/bin/softhsm2-util"];

/** True if the system cannot create a token. With REQUIRE_REAL_SERVERS=1 it is always false. */
export const isTokenMissing: boolean = Deno.env.get("REQUIRE_REAL_SERVERS") !== "1" &&
  !PROGRAMS.every(isInstalled);

/**
 * Creates a token with keys.
 *
 * @param folder existing directory for the token's files
 * @param kinds key types in the words of `pkcs11-tool`, by label
 */
export async function createToken(
  folder: string,
  kinds: Readonly<Record<string, string>>,
): Promise<Pkcs11Token> {
  await Deno.mkdir(`${folder}/tokens`);
  const config = `${folder}/softhsm2.conf`;
  await Deno.writeTextFile(config, `directories.tokendir = ${folder}/tokens\nlog.level = ERROR\n`);
  const askPin = `${folder}/ask_pin`;
  await Deno.writeTextFile(askPin, `#!/bin/sh\necho ${PIN}\n`, { mode: 0o700 });
  const env = { SOFTHSM2_CONF: config };
  const init = ["--init-token", "--free", "--label", "ca", "--so-pin", "12345678", "--pin", PIN];
  await run("softhsm2-util", init, env);
  for (const [index, [label, type]] of Object.entries(kinds).entries()) {
    const what = ["--keypairgen", "--key-type", type, "--id", `0${index + 1}`, "--label", label];
    await run("pkcs11-tool", ["--module", MODULE, "--login", "--pin", PIN, ...what], env);
  }
  return { module: await Deno.realPath(MODULE), env, askPin };
}

function isInstalled(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}
