import { writeAll } from "@gateway/shared/text";
import { readConfigText } from "@gateway/shared/config";
import { ifThere, tryLockFile } from "@gateway/shared/files";
import { AppError, errorText } from "@gateway/shared/errors";
import { finish, finishInSlices } from "@gateway/shared/clock";
import { editPath, type SignerConfig } from "./config.ts";
import { loadSnapshot, parseSignerConfig, type Snapshot, type SnapshotPorts } from "./snapshot.ts";

/**
 * The file that the signer is configured by. While it runs, a text is checked and compiled in slices: a config of
 * thousands of hosts must not keep requests waiting.
 */
export interface ConfigFile {
  /** @throws {AppError} `invalid_config` when it can't be read or is not UTF-8 */
  read(): Promise<string>;
  /** @throws {AppError} `invalid_config` */
  parse(text: string): Promise<SignerConfig>;
  /**
   * Checks and compiles a text as a whole.
   *
   * @param previous the snapshot in force, whose parts are kept where their settings are
   * @throws {AppError} `invalid_config`
   */
  compile(text: string, previous?: Snapshot): Promise<Snapshot>;
  /**
   * Puts a new text in the place of the one that is expected there.
   *
   * @returns false when the file says something else by now, or an operator's program is editing it
   * @throws {AppError} `internal` when the file can't be written
   */
  replace(expected: string, text: string): Promise<boolean>;
}

/** The config file at a path. */
export function openConfigFile(path: string, ports: SnapshotPorts): ConfigFile {
  const read = () => readConfigText(path, "signer config");
  const parse = (text: string, previous?: SignerConfig) =>
    finishInSlices(parseSignerConfig(text, path, previous), ports.clock);
  return {
    read,
    parse,
    async compile(text, previous) {
      // At the start nobody waits for an answer.
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
 * Puts a new text in the place of a config file, whole or not at all, durable when it resolves; mode and owner
 * rights stay. The new file has a fixed name, so that the process needs no right to anything else in the folder:
 * whatever lies there under that name is removed, and it is created again and for the owner alone.
 *
 * @throws {AppError} `internal` when the file can't be written; the old one is then untouched
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
    // The folder is out of this process's reach; syncing the file commits its rename with it.
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
