import { writeAll } from "@gateway/shared/text";
import { readConfigText } from "@gateway/shared/config";
import { ifThere, tryLockFile } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { finish, finishInSlices } from "@gateway/shared/clock";
import { editPath, type SignerConfig } from "./config.ts";
import { loadSnapshot, parseSignerConfig, type Snapshot, type SnapshotPorts } from "./snapshot.ts";

/** While the signer runs, a text is compiled in slices: thousands of hosts must not keep requests waiting. */
export interface ConfigFile {
  read(): Promise<string>;
  /** @throws {AppError} `invalid_config` */
  parse(text: string): Promise<SignerConfig>;
  /** @param previous the snapshot in force, whose parts are kept if their settings are the same */
  compile(text: string, previous?: Snapshot): Promise<Snapshot>;
  /** Replaces the expected text; false if the file has another one by now, or an operator's program is editing it. */
  replace(expected: string, text: string): Promise<boolean>;
}

export function openConfigFile(path: string, ports: SnapshotPorts): ConfigFile {
  const read = () => readConfigText(path, "signer config");
  const parse = (text: string, previous?: SignerConfig) =>
    finishInSlices(parseSignerConfig(text, path, previous), ports.clock);
  return {
    read,
    parse,
    async compile(text, previous) {
      // At the start no request waits.
      if (previous === undefined) return await loadSnapshot(finish(parseSignerConfig(text, path)), ports);
      return await loadSnapshot(await parse(text, previous.config), ports, previous);
    },
    async replace(expected, text) {
      using lock = await tryLockFile(path);
      if (lock === undefined || await read() !== expected) return false;
      await replaceConfigFile(path, text);
      return true;
    },
  };
}

/**
 * Replaces a config file, whole or not at all, durable when it resolves; its mode stays. The new file has a fixed name, so
 * that the process needs no right to anything else in the directory.
 */
async function replaceConfigFile(path: string, text: string): Promise<void> {
  const next = editPath(path);
  try {
    const { mode } = await Deno.stat(path);
    await ifThere(Deno.remove(next));
    {
      using file = await Deno.open(next, { write: true, createNew: true, mode: 0o600 });
      await writeAll(file, new TextEncoder().encode(text));
      await file.sync();
    }
    if (mode !== null) await Deno.chmod(next, mode & 0o7777);
    await Deno.rename(next, path);
    // The directory is out of this process's reach; syncing the file commits its rename with it.
    using renamed = await Deno.open(path, { read: true });
    await renamed.sync();
  } catch (cause) {
    throw new AppError("internal", "The config file could not be written", { cause });
  }
}

/** A text that changes whenever a file is written or replaced; the error text if the file cannot be read. */
export async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtime } = await Deno.stat(path);
    return [dev, ino, size, mtime?.getTime()].join();
  } catch (error) {
    return errorText(error);
  }
}
