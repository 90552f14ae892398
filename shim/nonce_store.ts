type Claim = "claimed" | "used" | "failed";

/** Longer than any envelope is good for. */
const KEEP_MS = 600_000;

/**
 * Records the use of an envelope in a folder that the accounts of the host share: of several who try at once one wins.
 *
 * @param nonce hex digits; the name of the record
 * @param now in milliseconds since the epoch
 */
export async function claimNonce(folder: string, nonce: string, now: number): Promise<Claim> {
  try {
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  } catch {
    return "failed";
  }
  await sweep(folder, now);
  try {
    const file = await Deno.open(`${folder}/${nonce}`, { write: true, createNew: true, mode: 0o600 });
    file.close();
    return "claimed";
  } catch (error) {
    return error instanceof Deno.errors.AlreadyExists ? "used" : "failed";
  }
}

/** Removes what is too old to matter, as far as it can be removed: it is another account's, or no record at all. */
async function sweep(folder: string, now: number): Promise<void> {
  try {
    for await (const { name } of Deno.readDir(folder)) await removeOld(`${folder}/${name}`, now);
  } catch {
    // A claim needs to write there, not to read.
  }
}

async function removeOld(path: string, now: number): Promise<void> {
  try {
    const { mtime } = await Deno.lstat(path);
    if (mtime !== null && now - mtime.getTime() > KEEP_MS) await Deno.remove(path);
  } catch {
    // The next one tries again.
  }
}
