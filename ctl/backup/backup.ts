import { dirname, resolve } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { command, repeat } from "../kit/command.ts";
import { readOperatorText } from "../kit/files.ts";
import { createLineWriter, HintedError, invalid } from "../kit/output.ts";
import { makeBackup } from "./make.ts";
import { restoreBackup } from "./restore.ts";

export const BACKUP = command({
  name: "backup",
  summary: "Copy configs, state and audit logs to a new directory.",
  takes: {
    "<directory>": "the backup; it must not exist yet",
    "--recipient <age1…>": repeat("add the keys, encrypted for this age recipient; repeat for more"),
  },
  help: `
Examples:
  broker-ctl backup /mnt/backup/monday --config /etc/gateway/signer.json
  broker-ctl backup /mnt/backup/monday --recipient "$(age-keygen -y identity.txt)" --config /etc/gateway/signer.json

Copies the configs, the lists of denied callers, the state of signer and control plane, and all files of the audit logs.
The services may run meanwhile. Keys, certificates, tokens and the services' .env files are added only with --recipient,
encrypted in the format of age. "age-keygen -o identity.txt" creates an age key pair. Without --recipient, store pki/
elsewhere: an installation does not start without its keys. Files outside of the installation and of its state and log
directories are not copied, and the output names them. State in PostgreSQL is not copied either.

The first backup creates the signing key pki/backup.seed, and every backup is signed with it. The output shows the
public key. Store the public key away from the backup, for example with the age identity: restore needs it. A copy of
the public key inside the backup proves nothing, because anyone who can write the backup can replace that copy.
Run it as a user who can read all these files, root for an installation of packages. Exit code 1: an audit log is not
intact, and was copied as it is.
`,
  run: async ({ directory, config = "signer.json", recipient = [] }, { workingFolder }) => {
    const target = resolve(workingFolder, directory);
    const setUp = dirname(resolve(workingFolder, config));
    const options = { setUp, target, recipients: recipient, clock: systemClock };
    const { manifest, publicKey } = await makeBackup(options);
    const count = (kind: string) => manifest.files.filter((file) => file.kind === kind).length;
    const { keys, left_out: leftOut, heads, problems = [] } = manifest;
    const lists = count("denied_callers");
    return {
      json: { folder: target, public_key: publicKey, ...manifest },
      lines: [
        `backup of ${setUp} in ${target}: ${count("config")} configs, ${count("state")} states, ` +
        `${lists} ${lists === 1 ? "list" : "lists"} of denied callers, ${
          count("audit_log")
        } files of audit logs, ` +
        (keys === undefined ? "no keys" : `${keys.count} keys (encrypted)`),
        ...heads.map(({ path, seq, hash }) =>
          `${path} ends with record ${seq}${hash === "" ? "" : `, ${hash}`}`
        ),
        ...(keys === undefined ? ["the keys are not in it: --recipient adds them, encrypted"] : []),
        `signed; store the public key away from the backup, and restore with --public-key ${publicKey}`,
        ...leftOut.map((what) => `left out: ${what}`),
        ...problems.map((problem) => `ERROR: ${problem}`),
      ],
      failed: problems.length > 0,
    };
  },
});

export const RESTORE = command({
  name: "restore",
  summary: "Restore a backup.",
  takes: {
    "<directory>": "the backup",
    "--dir <directory>": "another directory for the installation",
    "--identity <file>": "age identity that opens the keys: lines AGE-SECRET-KEY-1…",
    "--without-keys": "restore everything but the keys",
    "--public-key <key>": "public key that must have signed the backup, from the output of backup",
    "--trust-unsigned": "do not check the signature",
  },
  help: `
Examples:
  broker-ctl restore /mnt/backup/monday --identity identity.txt --public-key PUBLIC_KEY
  broker-ctl restore /mnt/backup/monday --identity identity.txt --public-key PUBLIC_KEY --dir ~/gateway

Stop the services first. PUBLIC_KEY is the key that the output of backup shows. While the installation exists,
"doctor --json --backup" shows it too. restore rejects a backup that another key signed, and one that is not signed. --trust-unsigned
accepts both: anyone who can write such a backup can replace policies and keys. A signature does not prove that the
backup is the newest one: compare its time in the plan.

restore prints the plan, then writes. Files return to their places with their modes and, for root, their owners. With
--dir they go to another directory, and the configs name the files there. Nothing is written outside of the
installation and of the state and log directories that its configs name. Equal files stay, so an interrupted restore
can be repeated. If any other file is in the way, nothing is written. restore then verifies that each audit log ends
where it ended.
Freezes, revocations, grants and approvals made after the backup are lost: freeze these identities again.
`,
  uses: () => [],
  run: async ({ directory, dir, identity, publicKey, json = false, ...given }, call) => {
    const { withoutKeys = false, trustUnsigned = false } = given;
    const { workingFolder, terminal } = call;
    const at = (path: string) => resolve(workingFolder, path);
    if (identity !== undefined && withoutKeys) {
      throw invalid("Cannot use --identity with --without-keys: pass one of them");
    }
    if ((publicKey === undefined) !== trustUnsigned) {
      throw new HintedError(
        invalid("Cannot restore: pass either --public-key or --trust-unsigned"),
        "pass --public-key KEY, which backup printed; or --trust-unsigned if nobody else could write the backup",
      );
    }
    const identities = withoutKeys
      ? undefined
      : identity === undefined
      ? []
      : await readIdentities(at(identity));
    const { line } = createLineWriter(terminal, { json });
    const { manifest, folder: target, files, keys, plan, missing, problems } = await restoreBackup({
      backup: at(directory),
      folder: dir === undefined ? undefined : at(dir),
      identities,
      publicKey,
      onPlan: (lines) => json ? undefined : lines.forEach((each) => line(`plan: ${each}`)),
    });
    const ok = problems.length === 0;
    return {
      json: { ok, folder: target, made_at: manifest.made_at, files, keys, plan, missing, problems },
      lines: [
        `restored ${files} files and ${keys} keys of ${manifest.made_at} to ${target}`,
        ...(ok ? [`${manifest.heads.length} audit logs: intact, and end where they did`] : []),
        ...problems.map((problem) => `ERROR: ${problem}`),
        ...missing.map((what) => `missing: ${what}`),
        "freezes, revocations, grants and approvals made after the backup are lost: freeze these identities again",
      ],
      failed: !ok,
    };
  },
});

/** The lines of a file of `age-keygen`. */
async function readIdentities(path: string): Promise<readonly string[]> {
  const text = await readOperatorText(path, "identity");
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
}
