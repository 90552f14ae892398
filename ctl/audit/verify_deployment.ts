import { resolve } from "node:path";
import { readOperatorText } from "../kit/files.ts";
import { badConfig, type CommandResult } from "../kit/output.ts";
import { type InstanceKey, parseInstanceKeys } from "./keys.ts";
import { listDeploymentLogs, LOG_NAME } from "./logs.ts";
import {
  describeForPrograms,
  describeVerified,
  MAX_REPORTED,
  openHeads,
  type VerifiedLog,
  verifyLog,
} from "./verified_log.ts";

interface DeploymentCheck {
  readonly folder: string;
  /** The file of keys, which says whose logs must be there. */
  readonly keys: string;
  readonly all: boolean;
  readonly since?: string | undefined;
}

interface CheckedInstance extends LogSerials {
  readonly key: InstanceKey;
  readonly log: VerifiedLog;
}

/** Checks the logs of all instances of a deployment, each by itself and together. */
export async function verifyDeployment(
  check: DeploymentCheck,
  workingFolder: string,
): Promise<CommandResult> {
  const { all, since } = check;
  const inFolder = (path: string) => resolve(workingFolder, path);
  const keys = await loadKeys(inFolder(check.keys), check.keys);
  const heads = await openHeads(since === undefined ? undefined : inFolder(since));
  const logs = await listDeploymentLogs(inFolder(check.folder));
  const checked: CheckedInstance[] = [];
  // Signers last: by then their logs have the serials that others received meanwhile.
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
      ...gone.map((log) => `ERROR: ${log} is remembered and was not checked: it is gone`),
      ...open.map((question) => `not proved: ${question}`),
      ok
        ? `OK: ${checked.length} logs, ${issued} serials, each in the log of one signer`
        : "FAIL: the logs of this deployment are not whole",
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
  throw badConfig(`Cannot use ${JSON.stringify(source)}: it names no signer`);
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
    ...(areWhole ? [] : ["not all that signers have written is here"]),
    ...(others.length > 0 ? [] : ["no log of a control plane or broker is here"]),
  ];
  return {
    problems,
    count,
    issued: signers.reduce((sum, { serials }) => sum + serials.sorted.length, 0),
    open: open.map((why) => `that each serial in use stands in a signer's log: ${why}`),
  };
}

const INSTANCE_PROBLEMS = {
  missing: (instance: string, { folder, keys }: DeploymentCheck) =>
    `no log: there is no ${folder}/${instance}/${LOG_NAME}, and ${keys} names it`,
  empty: (_instance: string, { keys }: DeploymentCheck) =>
    `its log is empty: it was emptied, or has nothing in it yet; name it in ${keys} when it has`,
  unknown: (_instance: string, { keys }: DeploymentCheck) =>
    `a log is there, and no key of it in ${keys}: nobody knows whose records these are`,
};

function describeSerial({ kind, serial, instances }: SerialProblem): string {
  const names = instances.join(", ");
  return kind === "twice"
    ? `ERROR: serial ${serial} was issued more than once: ${names}`
    : `ERROR: serial ${serial} stands in the log of ${names} and in no signer's: a record is gone, or ` +
      "a signer is missing";
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

interface LogSerials {
  readonly instance: string;
  readonly serials: SerialList;
}

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
  let told: bigint | undefined;
  for (const serial of all) {
    if (serial === last && serial !== told) {
      const instances = issued.filter(({ serials }) => serials.has(serial)).map(({ instance }) => instance);
      yield { kind: "twice", serial, instances };
      told = serial;
    }
    last = serial;
  }
}

/** Finds the serials that others received and no signer issued. */
function* findNowhere(
  used: readonly LogSerials[],
  issued: readonly LogSerials[],
): Generator<SerialProblem> {
  for (const { instance, serials } of used) {
    let last: bigint | undefined;
    for (const serial of serials.sorted) {
      if (serial !== last && issued.every((log) => !log.serials.has(serial))) {
        yield { kind: "nowhere", serial, instances: [instance] };
      }
      last = serial;
    }
  }
}
