import { resolve } from "node:path";
import { command } from "../kit/command.ts";
import { type CommandResult, invalid } from "../kit/output.ts";
import { loadAuditKey } from "./keys.ts";
import { listLogSet, setOption } from "./logs.ts";
import {
  describeForPrograms,
  describeVerified,
  openHeads,
  type VerifiedLog,
  verifyLog,
} from "./verified_log.ts";
import { verifyDeployment } from "./verify_deployment.ts";

export const VERIFY = command({
  name: "verify",
  summary: "Say what an audit log proves: that it is whole and unchanged. Exit code 1 when it is not.",
  takes: {
    "--log <file>": "the audit log",
    "--key <file>": "the seed file that the service signs with (its audit_key)",
    "--all": "the rotated files too, from the first record ever",
    "--set [folder]": setOption(
      "also the logs of further processes next to it; or those of all instances",
    ),
    "--keys <file>": "with --set <folder>: the instances and their public keys",
    "--since <file>": "compare it with the end that this file remembers, and remember the new one",
  },
  help: `
Examples:
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit verify --log log/broker/audit.log --key pki/broker_audit.seed --all
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed --since ~/heads/signer.json
  broker-ctl audit verify --log log/mcp/audit.log --key pki/mcp_audit.seed --set
  broker-ctl audit verify --set logs --keys ~/keys/instances --since ~/heads/deployment.json

Each record names the hash of the one before it and is signed. Without --key only the hashes are checked:
that finds a record changed or taken out, but not a log rewritten from end to end.
No log can show by itself that its end was cut off, or that it was emptied: for that somebody has to remember how
far it went. --since remembers: the first run makes the file, each later one refuses a log that does not contain
what the file remembers, and renews it only when all is well. It looks through rotated files too, of which the
oldest may be gone. Keep the file where the service's account can't write.
--set is for a broker over stdio, of which several processes may run: audit.log and, beside it, audit-2.log,
audit-3.log and so on, each a chain of its own.
--set <folder> is for a deployment of several instances, with <folder>/<instance>/audit.log of each and the rotated
files beside it. --keys names who has to have a log, and by what key: a line of broker-ctl audit public-key for each,
in a file that none of them can write. It fails where one is missing, empty or unknown, where a serial was
issued twice, and where a control plane or broker was given one that no signer's log has. Links are not followed.
`,
  uses: () => [],
  run: async ({ set, log, keys, ...given }, { workingFolder }) => {
    const { key, all = false, since } = given;
    if (typeof set !== "string") {
      if (keys !== undefined) throw invalid("--keys goes with --set <folder>; the key of one log is --key");
      if (log === undefined) throw invalid("--log <file> or --set <folder> is needed");
      return await verifyOne({ ...given, log, ...set && { set } }, workingFolder);
    }
    if (log !== undefined || key !== undefined) {
      throw invalid("--set <folder> is of all instances: neither --log nor --key goes with it");
    }
    if (keys === undefined) {
      throw invalid("--set <folder> needs --keys, which says whose logs have to be there");
    }
    return await verifyDeployment({ folder: set, keys, all, since }, workingFolder);
  },
});

async function verifyOne(
  { log, key, all = false, set, since }: {
    readonly log: string;
    readonly key?: string;
    readonly all?: boolean;
    readonly set?: true;
    readonly since?: string;
  },
  workingFolder: string,
): Promise<CommandResult> {
  const inFolder = (path: string) => resolve(workingFolder, path);
  const publicKey = key === undefined ? undefined : await loadAuditKey(key, workingFolder);
  const heads = await openHeads(since === undefined ? undefined : inFolder(since));
  const method = { withKey: publicKey !== undefined, all, since: since !== undefined };
  const logs: VerifiedLog[] = [];
  for (const path of set === true ? await listLogSet(inFolder(log)) : [inFolder(log)]) {
    logs.push(await verifyLog(path, method, { publicKey, heads }));
  }
  const gone = heads.listGone(logs);
  const ok = gone.length === 0 && logs.every(({ isIntact }) => isIntact);
  const note = await heads.close(logs, ok);
  const shown = logs.map((log) => describeForPrograms(log, method));
  const why = set === true ? "it is gone" : "it is another log than this one, or --set is missing";
  return {
    json: set === true ? { ok, logs: shown, gone } : { ...shown[0], ok },
    lines: [
      ...logs.flatMap((log) =>
        describeVerified(log, method).map((line) => set === true ? `${log.name}: ${line}` : line)
      ),
      ...gone.map((log) => `ERROR: ${log} is remembered and was not checked: ${why}`),
      ...note,
    ],
    failed: !ok,
  };
}
