import { basename, resolve } from "node:path";
import { ifThere } from "@gateway/shared/files";
import { command } from "../kit/command.ts";
import { badConfig, type CommandResult, invalid } from "../kit/output.ts";
import { openApprovalCheck } from "./approvals.ts";
import { type InstanceKey, loadAuditKey, parseInstanceKeys } from "./keys.ts";
import { listDeploymentLogs, listLogSet, listRotated, LOG_NAME, setOption } from "./logs.ts";
import {
  describeForPrograms,
  describeVerified,
  MAX_REPORTED,
  openHeads,
  type VerifiedLog,
  verifyLog,
} from "./verified_log.ts";
import { readOperatorText } from "../kit/files.ts";
import { listInstalledLogs } from "./search.ts";

export const VERIFY = command({
  name: "verify",
  summary: "Verify that an audit log is complete and unchanged.",
  takes: {
    "--log <file>": "audit log (default: all logs of the installation, with their keys)",
    "--key <file>": "seed file that signs the log (audit_key)",
    "--all": "include rotated files, from the first record",
    "--set [directory]": setOption(
      "include logs of further processes; or directory with logs of all instances",
    ),
    "--keys <file>": "with --set <directory>: instances and their public keys",
    "--approvals": "verify the signed approvals with the approvers of the signer's config",
    "--since <file>": "file with the last verified head; updated after success",
  },
  help: `
Examples:
  broker-ctl audit verify
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed
  broker-ctl audit verify --log log/broker/audit.log --key pki/broker_audit.seed --all
  broker-ctl audit verify --log log/signer/audit.log --key pki/signer_audit.seed --since ~/heads/signer.json
  broker-ctl audit verify --log log/mcp/audit.log --key pki/mcp_audit.seed --set
  broker-ctl audit verify --set logs --keys ~/keys/instances --since ~/heads/deployment.json

By default, the command verifies the logs that the signer's config and the configs next to it name, each with its
audit_key. A log that does not exist is listed as not checked, because its service may never have run.

Each record is signed and contains the hash of the previous record. Without --key only the hashes are checked, which
does not detect a completely rewritten log. A log alone cannot show that its end was truncated. --since detects this:
the first run creates the file with the head of the log, and later runs fail if the log no longer contains that head.
Rotated files are searched too. Store the file where the service's account cannot write. --set without a directory also
verifies the logs of further stdio brokers (audit-2.log, audit-3.log …). --set <directory> verifies
<directory>/<instance>/audit.log of all instances; symbolic links are rejected. --keys lists the expected instances,
with a line of broker-ctl audit public-key for each, in a file that no instance can write. Verification fails if a log
is missing, empty or unknown, if a serial was issued twice, or if a control plane or broker used a serial that no
signer's log contains. --approvals verifies each signature of an approval again: it belongs to an approver of the signer's
config, was valid at the time of the record, and was used once. The log does not contain all signed fields, so that the
signature is about the recorded command is the statement of the signer. A removed approver or key counts as invalid. Logs
with 0 signed approvals do not fail. Exit code 1: verification failed.
`,
  uses: ({ set, log, approvals }) =>
    approvals === true || set === undefined && log === undefined ? ["config"] : [],
  run: async ({ config, set, log, keys, key, all = false, since, approvals }, { workingFolder }) => {
    const signatures = approvals === true ? await openApprovalCheck(config, workingFolder) : undefined;
    if (typeof set !== "string") {
      if (keys !== undefined) {
        throw invalid("Cannot use --keys without --set <directory>; for one log pass --key");
      }
      if (log === undefined && (key !== undefined || set !== undefined)) {
        throw invalid("Cannot use --key or --set without --log: pass --log <file>");
      }
      const logs = log === undefined
        ? await listInstalledLogs(config, workingFolder)
        : (set === true ? await listLogSet(resolve(workingFolder, log)) : [resolve(workingFolder, log)])
          .map((path) => ({ path, key }));
      const isList = set === true || log === undefined;
      return await verifyLogs(logs, { all, since, isList, signatures }, workingFolder);
    }
    if (log !== undefined || key !== undefined || signatures !== undefined) {
      throw invalid("Cannot use --log, --key or --approvals with --set <directory>");
    }
    if (keys === undefined) {
      throw invalid("Pass --keys with --set <directory>: it lists the expected instances");
    }
    return await verifyDeployment({ folder: set, keys, all, since }, workingFolder);
  },
});

interface Check {
  readonly all: boolean;
  readonly since: string | undefined;
}

/** A log, the file of its key, and the service that writes it if an installation is checked. */
interface CheckedLog {
  readonly path: string;
  readonly key: string | undefined;
  readonly instance?: string;
}

/** Checks logs of one machine. JSON contains a list, or the only log. */
async function verifyLogs(
  checked: readonly CheckedLog[],
  { all, since, isList, signatures }: Check & {
    readonly isList: boolean;
    readonly signatures: Awaited<ReturnType<typeof openApprovalCheck>> | undefined;
  },
  workingFolder: string,
): Promise<CommandResult> {
  const heads = await openHeads(since === undefined ? undefined : resolve(workingFolder, since));
  const method = { withKey: checked.every(({ key }) => key !== undefined), all, since: since !== undefined };
  const logs: VerifiedLog[] = [];
  const missing: string[] = [];
  for (const { path, key, instance } of checked) {
    const name = instance === undefined ? basename(path) : `${instance}/${basename(path)}`;
    const isThere = await ifThere(Deno.stat(path)) !== undefined || (await listRotated({ path })).length > 0;
    // A service that has never run has no log.
    if (instance !== undefined && !isThere) missing.push(name);
    else {
      const publicKey = key === undefined ? undefined : await loadAuditKey(key, workingFolder);
      logs.push(await verifyLog(path, method, { publicKey, heads, name, ...signatures }));
    }
  }
  const approvals = signatures?.result();
  const gone = heads.listGone(logs);
  const ok = logs.length > 0 && gone.length === 0 && logs.every(({ isIntact }) => isIntact) &&
    approvals?.ok !== false;
  const note = await heads.close(logs, ok);
  const shown = logs.map((log) => describeForPrograms(log, method));
  const isInstallation = checked.some(({ instance }) => instance !== undefined);
  const why = isList ? "it is missing" : "it is another log, or --set is missing";
  return {
    json: { ...(isList ? { logs: shown, gone } : shown[0]), ok, ...(approvals && { approvals }) },
    lines: [
      ...logs.flatMap((log) =>
        describeVerified(log, method).slice(0, isInstallation && log.isIntact ? 1 : undefined)
          .map((line) => isList ? `${log.name}: ${line}` : line)
      ),
      ...isInstallation
        ? new Set(shown.flatMap(({ not_proved }) => not_proved.map((question) => `not proved: ${question}`)))
        : [],
      ...missing.map((name) => `${name}: not checked: no such file`),
      ...gone.map((log) => `ERROR: remembered log ${log} was not checked: ${why}`),
      ...(approvals === undefined ? [] : [
        ...approvals.problems.map((problem) => `ERROR: ${problem}`),
        approvals.ok && approvals.records === 0
          ? "not proved: that people signed approvals: the logs contain 0 signed approvals"
          : `${
            approvals.ok ? "OK" : "FAIL"
          }: ${approvals.proofs} signed approvals of ${approvals.records} records`,
      ]),
      ...note,
    ],
    failed: !ok,
  };
}

interface DeploymentCheck extends Check {
  readonly folder: string;
  /** The file of keys, which lists the required logs. */
  readonly keys: string;
}

type CheckedInstance = LogSerials & { readonly key: InstanceKey; readonly log: VerifiedLog };

/** Checks the logs of all instances of a deployment, each by itself and together. */
async function verifyDeployment(check: DeploymentCheck, workingFolder: string) {
  const { all, since } = check;
  const inFolder = (path: string) => resolve(workingFolder, path);
  const keys = await loadKeys(inFolder(check.keys), check.keys);
  const heads = await openHeads(since === undefined ? undefined : inFolder(since));
  const logs = await listDeploymentLogs(inFolder(check.folder));
  const checked: CheckedInstance[] = [];
  // Signers last: their logs then include the serials that other services received in the meantime.
  for (const key of [...keys.filter(isOther), ...keys.filter(isSigner)]) {
    const { instance, publicKey } = key;
    const found = logs.find((log) => log.instance === instance);
    if (found === undefined) continue;
    const serials = new SerialList();
    const log = await verifyLog(found.path, { withKey: true, all, since: true }, {
      publicKey,
      heads,
      name: `${instance}/${LOG_NAME}`,
      onLine(line) {
        const read = readSerial(line);
        if (read !== undefined && (read.isIssued || isOther(key))) serials.add(read.serial);
      },
    });
    checked.push({ instance, key, log, serials });
  }
  const instances = [
    ...keys.filter((key) => logs.every(({ instance }) => instance !== key.instance))
      .map(({ instance }) => ({ kind: "missing", instance }) as const),
    ...checked.filter(({ log }) => log.result.entries === 0)
      .map(({ instance }) => ({ kind: "empty", instance }) as const),
    ...logs.filter(({ instance }) => keys.every((key) => key.instance !== instance))
      .map(({ instance }) => ({ kind: "unknown", instance }) as const),
  ];
  const { problems, count, issued, open } = compareSerials(checked, instances.length > 0);
  const verified = checked.map(({ log }) => log);
  const gone = heads.listGone(verified);
  const ok = instances.length === 0 && count === 0 && gone.length === 0 &&
    verified.every(({ isIntact }) => isIntact);
  const note = await heads.close(verified, ok);
  const shown = { withKey: true, all, since: since !== undefined };
  return {
    json: {
      ok,
      logs: checked.map(({ key: { service, instance }, log }) => ({
        service,
        instance,
        ...describeForPrograms(log, shown),
      })),
      instances,
      serials: { problem_count: count, problems, not_proved: open },
      gone,
    },
    lines: [
      ...checked.flatMap(({ instance, log }) =>
        describeVerified(log, shown).map((line) => `${instance}: ${line}`)
      ),
      ...instances.map(({ kind, instance }) =>
        `ERROR: ${instance}: ${INSTANCE_PROBLEMS[kind](instance, check)}`
      ),
      ...problems.map(describeSerial),
      ...(count > problems.length ? [`… and ${count - problems.length} more`] : []),
      ...gone.map((log) => `ERROR: remembered log ${log} was not checked: it is missing`),
      ...open.map((question) => `not proved: ${question}`),
      ok
        ? `OK: ${checked.length} logs, ${issued} serials, each in the log of one signer`
        : "FAIL: the logs of this deployment are incomplete or damaged",
      ...note,
    ],
    failed: !ok,
  };
}

const isSigner = ({ service }: InstanceKey) => service === "signer";
const isOther = (key: InstanceKey) => !isSigner(key);

async function loadKeys(path: string, source: string): Promise<readonly InstanceKey[]> {
  const keys = parseInstanceKeys(await readOperatorText(path, "keys of instances"), source);
  if (keys.some(isSigner)) return keys;
  throw badConfig(`Cannot use ${JSON.stringify(source)}: it contains no signer`);
}

function compareSerials(checked: readonly CheckedInstance[], isIncomplete: boolean) {
  const signers = checked.filter(({ key }) => isSigner(key));
  const others = checked.filter(({ key }) => isOther(key));
  // A serial that no log has may be in a log that was archived.
  const areWhole = !isIncomplete && signers.every(({ log }) => log.result.isFromBeginning);
  const problems: SerialProblem[] = [];
  let count = 0;
  for (const find of [() => findTwice(signers), ...areWhole ? [() => findNowhere(others, signers)] : []]) {
    for (const problem of find()) {
      count++;
      if (problems.length < MAX_REPORTED) problems.push(problem);
    }
  }
  const open = [
    ...(areWhole ? [] : ["the signers' logs are not complete"]),
    ...(others.length > 0 ? [] : ["there is no log of a control plane or broker"]),
  ];
  return {
    problems,
    count,
    issued: signers.reduce((sum, { serials }) => sum + serials.sorted.length, 0),
    open: open.map((why) => `that each used serial is in a signer's log: ${why}`),
  };
}

const INSTANCE_PROBLEMS = {
  missing: (instance: string, { folder, keys }: DeploymentCheck) =>
    `${keys} lists it, but ${folder}/${instance}/${LOG_NAME} does not exist`,
  empty: (_instance: string, { keys }: DeploymentCheck) =>
    `its log is empty: it was emptied, or the instance is new; add it to ${keys} after its first record`,
  unknown: (_instance: string, { keys }: DeploymentCheck) => `it has a log, but no key in ${keys}`,
};

function describeSerial({ kind, serial, instances }: SerialProblem): string {
  const names = instances.join(", ");
  return kind === "twice"
    ? `ERROR: serial ${serial} was issued more than once: ${names}`
    : `ERROR: serial ${serial} is in the log of ${names}, but in no signer's log: a record or a signer is missing`;
}

// A JSON string has no unescaped quotes: a match is a member of the record itself.
const SERIAL = /,"serial":(\d{1,20}),/;
const ISSUED = /,"outcome":"issued",/;
const LATIN1 = new TextDecoder("latin1");

function readSerial(line: Uint8Array) {
  const text = LATIN1.decode(line);
  const serial = BigInt(SERIAL.exec(text)?.[1] ?? 0);
  if (serial === 0n || BigInt.asUintN(64, serial) !== serial) return undefined;
  return { serial, isIssued: ISSUED.test(text) };
}

/** 8 bytes for each serial, so that the logs of years fit into memory. */
class SerialList {
  #items = new BigUint64Array(1024);
  #length = 0;
  #isSorted = true;

  add(serial: bigint): void {
    if (this.#length === this.#items.length) {
      const larger = new BigUint64Array(this.#length * 2);
      larger.set(this.#items);
      this.#items = larger;
    }
    this.#items[this.#length++] = serial;
    this.#isSorted = false;
  }

  get sorted(): BigUint64Array {
    const items = this.#items.subarray(0, this.#length);
    if (!this.#isSorted) items.sort();
    this.#isSorted = true;
    return items;
  }

  has(serial: bigint): boolean {
    const items = this.sorted;
    let [low, high] = [0, items.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((items[middle] ?? 0n) < serial) low = middle + 1;
      else high = middle;
    }
    return items[low] === serial;
  }
}

type LogSerials = { readonly instance: string; readonly serials: SerialList };

interface SerialProblem {
  readonly kind: "twice" | "nowhere";
  readonly serial: bigint;
  readonly instances: readonly string[];
}

/** Finds the serials that were issued more than once. */
function* findTwice(issued: readonly LogSerials[]): Generator<SerialProblem> {
  const all = new BigUint64Array(issued.reduce((sum, { serials }) => sum + serials.sorted.length, 0));
  let end = 0;
  for (const { serials } of issued) {
    all.set(serials.sorted, end);
    end += serials.sorted.length;
  }
  all.sort();
  let last: bigint | undefined;
  let reported: bigint | undefined;
  for (const serial of all) {
    if (serial === last && serial !== reported) {
      const instances = issued.filter(({ serials }) => serials.has(serial)).map(({ instance }) => instance);
      yield { kind: "twice", serial, instances };
      reported = serial;
    }
    last = serial;
  }
}

/** Finds the serials that other services received and no signer issued. */
function* findNowhere(used: readonly LogSerials[], issued: readonly LogSerials[]) {
  for (const { instance, serials } of used) {
    let last: bigint | undefined;
    for (const serial of serials.sorted) {
      if (serial !== last && issued.every((log) => !log.serials.has(serial))) {
        yield { kind: "nowhere" as const, serial, instances: [instance] };
      }
      last = serial;
    }
  }
}
