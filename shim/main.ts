/**
 * The verifier of the host-side shim for envelopes of format v1, which `gateway-shim-v1` starts: it prints the command
 * that may run, and a dot behind it, or refuses with exit code 126.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { errorName } from "@gateway/shared/errors";
import { checkEnvelope, isHostName, type VerifySignature } from "./check.ts";
import { claimNonce } from "./nonce_store.ts";
import { parsePinnedKeys } from "./pinned_keys.ts";

/** The exit code of a shell for a command that must not run. */
const REFUSED = 126;

/** A refusal, in words for whoever asked and for the operator. */
class Refusal extends Error {}

/** Gives the command of the envelope, whose use is then recorded. */
async function open([keyFile = "", store = "", ...args]: readonly string[]): Promise<string> {
  const [host = ""] = args;
  if (args.length !== 1) throw new Refusal("expected one argument, the name of this host");
  if (!isHostName(host)) throw new Refusal("the argument is not the name of a host");
  const wire = readEnvelope().trim();
  if (wire === "") throw new Refusal("no envelope: this host runs only commands that the signer has sealed");
  const verify = await readKeys(keyFile);
  const now = Date.now();
  const check = await checkEnvelope(wire, { host, verify, now });
  if (check.kind === "refused") throw new Refusal(check.reason);
  const claim = await claimNonce(store, check.nonce, now);
  switch (claim) {
    case "claimed":
      return check.command;
    case "used":
      throw new Refusal("envelope already used (replay)");
    case "failed":
      throw new Refusal(`cannot record the envelope's use in ${store}`);
    default:
      return claim satisfies never;
  }
}

/** What the broker asked for; empty when it asked for a shell. */
function readEnvelope(): string {
  try {
    return Deno.env.get("SSH_ORIGINAL_COMMAND") ?? "";
  } catch (error) {
    if (error instanceof Deno.errors.InvalidData) {
      throw new Refusal("the envelope is malformed (is the broker too old to pass envelopes on?)");
    }
    throw error;
  }
}

/** Reads the pinned keys, each time anew: a rotation needs no restart of anything. */
async function readKeys(path: string): Promise<VerifySignature> {
  const text = await readText(path).catch(() => undefined);
  if (text === undefined) throw new Refusal(`cannot read ${path}`);
  const pinned = parsePinnedKeys(text, path);
  if (pinned.kind === "unusable") throw new Refusal(pinned.reason);
  const keys = await Promise.all(
    pinned.keys.map((key) => crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"])),
  );
  return async (data, signature) => {
    const results = await Promise.all(
      keys.map((key) => crypto.subtle.verify("Ed25519", key, signature, data)),
    );
    return results.includes(true);
  };
}

/** Opening a pipe would wait for its other end; who may put one there may also change the keys. */
async function readText(path: string): Promise<string | undefined> {
  return (await Deno.stat(path)).isFile ? await Deno.readTextFile(path) : undefined;
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
