import { resolve } from "node:path";
import { AppError } from "@gateway/shared/errors";
import type { CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { readOperatorFile } from "../kit/files.ts";
import { listDeploymentLogs, LOG_NAME } from "./deployment_logs.ts";
import { type InstanceKey, parseInstanceKeys } from "./instance_keys.ts";
import { describeHeadFile, readHeads, type RememberedHead, writeHeads } from "./remembered_heads.ts";
import {
  findNowhere,
  findTwice,
  type LogSerials,
  readSerial,
  SerialList,
  type SerialProblem,
} from "./serials.ts";
import { describeVerified, isIntact, type VerifiedLog } from "./verified_log.ts";
import { describeForPrograms, headOf, MAX_REPORTED, verifyLog } from "./verify_log.ts";

/** What is checked, and by what. */
interface DeploymentCheck {
  /** With a folder for each instance. */
  readonly folder: string;
  /** The file of keys: who has to have a log. */
  readonly keys: string;
  readonly all: boolean;
  readonly since?: string | undefined;
}

interface CheckedInstance extends LogSerials {
  readonly key: InstanceKey;
  readonly log: VerifiedLog;
}

/** A log that is there without a key, or a key without a log, or a log in which nothing is. */
interface InstanceProblem {
  readonly kind: "unknown" | "missing" | "empty";
  readonly instance: string;
}

/** Checks the logs of all instances of a deployment, and what they say together. */
export async function verifyDeployment(
  check: DeploymentCheck,
  { workingFolder }: CommandContext,
): Promise<CommandResult> {
  const inFolder = (path: string) => resolve(workingFolder, path);
  const keys = await loadKeys(inFolder(check.keys), check.keys);
  const headPath = check.since === undefined ? undefined : inFolder(check.since);
  const heads = headPath === undefined ? undefined : await readHeads(headPath);
  const logs = await listDeploymentLogs(inFolder(check.folder));
  const method = { withKey: true, all: check.all, since: true };
  const checked: CheckedInstance[] = [];
  // Signers last: what others have been given meanwhile stands in their logs by then.
  for (const key of [...keys.filter(isOther), ...keys.filter(isSigner)]) {
    const log = logs.find(({ instance }) => instance === key.instance);
    if (log !== undefined) checked.push(await checkInstance(log.path, key, { ...method, heads }));
  }
  const shown = { ...method, since: headPath !== undefined };
  const instances: InstanceProblem[] = [
    ...keys.filter((key) => logs.every(({ instance }) => instance !== key.instance))
      .map(({ instance }) => ({ kind: "missing" as const, instance })),
    ...checked.filter(({ log }) => log.result.entries === 0)
      .map(({ instance }) => ({ kind: "empty" as const, instance })),
    ...logs.filter(({ instance }) => keys.every((key) => key.instance !== instance))
      .map(({ instance }) => ({ kind: "unknown" as const, instance })),
  ];
  const serials = compareSerials(checked, instances.length > 0);
  const gone = (heads ?? []).filter((head) => checked.every(({ log }) => log.name !== head.log));
  const ok = instances.length === 0 && serials.count === 0 && gone.length === 0 &&
    checked.every(({ log }) => isIntact(log));
  if (ok && headPath !== undefined) await writeHeads(headPath, checked.map(({ log }) => headOf(log)));
  return {
    json: {
      ok,
      logs: checked.map(({ key: { service, instance }, log }) => ({
        service,
        instance,
        ...describeForPrograms(log, shown),
      })),
      instances,
      serials: { problem_count: serials.count, problems: serials.problems, not_proved: serials.open },
      gone: gone.map(({ log }) => log),
    },
    lines: [
      ...checked.flatMap(({ instance, log }) =>
        describeVerified(log, shown).map((line) => `${instance}: ${line}`)
      ),
      ...instances.map((problem) => describeInstance(problem, check)),
      ...serials.problems.map(describeSerial),
      ...(serials.count > serials.problems.length
        ? [`… and ${serials.count - serials.problems.length} more`]
        : []),
      ...gone.map(({ log }) => `ERROR: ${log} is remembered and was not checked: it is gone`),
      ...serials.open.map((question) => `not proved: ${question}`),
      ok
        ? `OK: ${checked.length} logs, ${serials.issued} serials, each in the log of one signer`
        : "FAIL: the logs of this deployment are not whole",
      ...(headPath === undefined ? [] : [describeHeadFile(headPath, { ok, isNew: heads === undefined })]),
    ],
    failed: !ok,
  };
}

const isSigner = ({ service }: InstanceKey) => service === "signer";
const isOther = (key: InstanceKey) => !isSigner(key);

async function loadKeys(path: string, source: string): Promise<readonly InstanceKey[]> {
  const bytes = await readOperatorFile(path, "keys of instances");
  const keys = parseInstanceKeys(new TextDecoder().decode(bytes), source);
  if (keys.some(isSigner)) return keys;
  throw new AppError("invalid_config", `Cannot use ${JSON.stringify(source)}: it names no signer`);
}

async function checkInstance(
  path: string,
  key: InstanceKey,
  { heads, ...method }: {
    readonly withKey: boolean;
    readonly all: boolean;
    readonly since: boolean;
    readonly heads: readonly RememberedHead[] | undefined;
  },
): Promise<CheckedInstance> {
  const { instance, publicKey } = key;
  const name = `${instance}/${LOG_NAME}`;
  const serials = new SerialList();
  const log = await verifyLog(path, method, {
    publicKey,
    name,
    remembered: heads?.find((head) => head.log === name),
    onLine(line) {
      const found = readSerial(line);
      if (found !== undefined && (found.isIssued || isOther(key))) serials.add(found.serial);
    },
  });
  return { instance, key, log, serials };
}

function compareSerials(checked: readonly CheckedInstance[], isIncomplete: boolean) {
  const signers = checked.filter(({ key }) => isSigner(key));
  // What is in no log may be in one that was put away.
  const areWhole = !isIncomplete && signers.every(({ log }) => log.result.isFromBeginning);
  const problems: SerialProblem[] = [];
  let count = 0;
  const take = (found: Iterable<SerialProblem>) => {
    for (const problem of found) {
      count++;
      if (problems.length < MAX_REPORTED) problems.push(problem);
    }
  };
  take(findTwice(signers));
  const others = checked.filter(({ key }) => isOther(key));
  if (areWhole) take(findNowhere(others, signers));
  return {
    problems,
    count,
    issued: signers.reduce((sum, { serials }) => sum + serials.sorted.length, 0),
    open: [
      ...(areWhole ? [] : [
        "that each serial in use stands in a signer's log: not all that signers have written is here",
      ]),
      ...(others.length > 0 ? [] : [
        "that each serial in use stands in a signer's log: no log of a control plane or broker is here",
      ]),
    ],
  };
}

function describeInstance({ kind, instance }: InstanceProblem, { keys, folder }: DeploymentCheck): string {
  switch (kind) {
    case "missing":
      return `ERROR: ${instance}: no log: there is no ${folder}/${instance}/${LOG_NAME}, and ${keys} names it`;
    case "empty":
      return `ERROR: ${instance}: its log is empty: it was emptied, or has nothing in it yet; name it in ${keys} ` +
        "when it has";
    case "unknown":
      return `ERROR: ${instance}: a log is there, and no key of it in ${keys}: nobody knows whose records these are`;
    default:
      return kind satisfies never;
  }
}

function describeSerial({ kind, serial, instances }: SerialProblem): string {
  return kind === "twice"
    ? `ERROR: serial ${serial} was issued more than once: ${instances.join(", ")}`
    : `ERROR: serial ${serial} stands in the log of ${
      instances.join(", ")
    } and in no signer's: a record is gone, or ` +
      "a signer is missing";
}
