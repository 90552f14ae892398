import assert from "node:assert/strict";
import { join } from "node:path";
import { createInstallation } from "../stage/installation.ts";
import { createFolder, run } from "./ctl_fixture.ts";

/** An installation by init with a revoked identity, and functions for backup and restore. */
export async function createBackupScene() {
  const folder = await createFolder();
  const at = (path: string) => join(folder.path, path);
  const config = ["--config", at("gateway/signer.json")];
  await createInstallation(at("gateway"), []);
  await Deno.writeTextFile(at("gateway/pki/denied_callers"), "mallory\n", { append: true });
  return {
    at,
    backup: async (...more: string[]) => {
      const { exit, err, out } = await run(folder.path, "backup", "backup", ...config, ...more);
      assert.equal(exit, 0, err);
      return /--public-key (?<key>\S+)/.exec(out)?.groups?.["key"] ?? "";
    },
    tryBackup: (...more: string[]) => run(folder.path, "backup", "backup", ...config, ...more),
    doctor: () => run(folder.path, "doctor", "--backup", "backup", ...config),
    /** Does not check the signature. Tests of signatures pass --public-key themselves. */
    restore: (...more: string[]) => run(folder.path, "restore", "backup", "--trust-unsigned", ...more),
    restoreSigned: (...more: string[]) => run(folder.path, "restore", "backup", ...more),
    editManifest: async (edit: (text: string) => string) =>
      await Deno.writeTextFile(
        at("backup/manifest.json"),
        edit(await Deno.readTextFile(at("backup/manifest.json"))),
      ),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
