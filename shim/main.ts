/**
 * The verifier of the host-side shim for envelopes of format v1, which `gateway-shim-v1` starts: it prints the command
 * that may run, followed by a dot, or refuses with exit code 126.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { errorName } from "@gateway/shared/errors";
import { checkEnvelope, isHostName, MALFORMED, parsePinnedKeys, Refusal } from "./check.ts";

/** The exit code of a shell for a command that must not run. */
const REFUSED = 126;
/** How long records of used envelopes are kept, which is longer than any envelope is valid. */
const KEEP_MS = 600_000;

/** Returns the command of the envelope after recording the use of the envelope. */
async function open([keyFile = "", store = "", ...args]: readonly string[]): Promise<string> {
  const [host = ""] = args;
  if (args.length !== 1) throw new Refusal("expected one argument, the name of this host");
  if (!isHostName(host)) throw new Refusal("the argument is not the name of a host");
  const wire = readEnvelope().trim();
  if (wire === "") throw new Refusal("no envelope: this host runs only commands that the signer has sealed");
  const verify = await readKeys(keyFile);
  const now = Date.now();
  const { nonce, command } = await checkEnvelope(wire, { host, verify, now });
  await claimNonce(store, nonce, now);
  return command;
}

/** The command that the broker requested. Empty: the broker requested a shell. */
function readEnvelope(): string {
  try {
    return Deno.env.get("SSH_ORIGINAL_COMMAND") ?? "";
  } catch (error) {
    throw error instanceof Deno.errors.InvalidData ? new Refusal(MALFORMED) : error;
  }
}

/** Reads the pinned keys. They are read for each command, so that a rotation needs no restart. */
async function readKeys(path: string): Promise<Parameters<typeof checkEnvelope>[1]["verify"]> {
  const text = await readText(path).catch(() => undefined);
  if (text === undefined) throw new Refusal(`cannot read ${path}`);
  const keys = await Promise.all(
    parsePinnedKeys(text, path).map((key) =>
      crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"])
    ),
  );
  return async (data, signature) => {
    const results = await Promise.all(
      keys.map((key) => crypto.subtle.verify("Ed25519", key, signature, data)),
    );
    return results.includes(true);
  };
}

/**
 * Reads a regular file, because opening a pipe would wait for its writer. A pipe that appears after the check
 * is no additional risk: an attacker who can create one can also change the keys.
 */
async function readText(path: string): Promise<string | undefined> {
  return (await Deno.stat(path)).isFile ? await Deno.readTextFile(path) : undefined;
}

/**
 * Records the use of an envelope in a directory that all accounts of the host share. If an envelope is used
 * several times concurrently, only one use succeeds.
 */
async function claimNonce(directory: string, nonce: string, now: number): Promise<void> {
  // Ignore a failure here, because creating the record then fails.
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 }).catch(() => {});
  await sweep(directory, now);
  try {
    (await Deno.open(`${directory}/${nonce}`, { write: true, createNew: true, mode: 0o600 })).close();
  } catch (error) {
    throw new Refusal(
      error instanceof Deno.errors.AlreadyExists
        ? "envelope already used (replay)"
        : `cannot record the envelope's use in ${directory}`,
    );
  }
}

/**
 * Removes old records. Failures are ignored: a claim needs only the right to create a record, not to list or
 * remove records.
 */
async function sweep(directory: string, now: number): Promise<void> {
  try {
    for await (const { name } of Deno.readDir(directory)) {
      const path = `${directory}/${name}`;
      const { mtime } = await Deno.lstat(path).catch(() => ({ mtime: null }));
      if (mtime !== null && now - mtime.getTime() > KEEP_MS) await Deno.remove(path).catch(() => {});
    }
  } catch {
    // The directory cannot be listed, so nothing is removed.
  }
}

async function main(args: readonly string[]): Promise<number> {
  try {
    writeAllSync(Deno.stdout, `${await open(args)}.`);
    return 0;
  } catch (error) {
    const reason = error instanceof Refusal ? error.message : `the verifier failed (${errorName(error)})`;
    writeAllSync(Deno.stderr, `gateway-shim: refused: ${reason}\n`);
    return REFUSED;
  }
}

if (import.meta.main) Deno.exitCode = await main(Deno.args);
