import { type CaKey, selectCaKey } from "@gateway/shared/ca";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { ifThere, readRegularText } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { type Call, command, type CommandGroup, type Given, repeat } from "../kit/command.ts";
import { createFile, replaceFile } from "../kit/files.ts";
import { type CommandResult, conflict, invalid, notFound } from "../kit/output.ts";
import { inBatches, overSsh, runOverSsh } from "../kit/programs.ts";
import { usesSigner } from "../kit/remote.ts";
import { askReload } from "../kit/signer_change.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import type { Host } from "./add.ts";
import { carryOut, type EnrollOptions, formatEnrollScript } from "./enroll.ts";
import {
  caLine,
  needKey,
  planKeys,
  type PublicHalf,
  type RotatedKeys,
  rotatedKeys,
  rotationFiles,
} from "./next_ca.ts";

const EXAMPLES = `
Examples:
  broker-ctl ca rotate begin --over ssh --config gateway/signer.json
  broker-ctl ca rotate status --over ssh --config gateway/signer.json
  broker-ctl ca rotate finish --over ssh --config gateway/signer.json --client-config gateway/broker-ctl.json

Rotates the default CA key, in a file or in an ssh-agent, in three steps. Certificates stay valid throughout, and each
step can be repeated after an interruption.
  1. begin creates the next key and configures each host to trust both keys. For a key in an agent, first add the next key
     to that agent and write its public key to public_key_path with the suffix .next.
  2. finish checks that every host trusts the next key, and reloads the signer, which then signs with it.
  3. finish again, 15 minutes later, removes the previous key from each host after a login with a new certificate. Then
     remove the previous key from the agent.
For hosts behind a bastion, broker-ctl host enroll prints the script. --except skips a host that is decommissioned or
was checked manually. Skipped hosts are recorded in a file next to the key, because they may still trust the previous
key or reject the next one.
`;

const OVERLAP_MS = 16 * 60_000;
const AT_A_TIME = 8;

const TAKES = {
  ...overSsh("run the step on the hosts"),
  "--except <host>": repeat("host to skip; repeatable"),
};

type Step = (rotation: Rotation, call: Call) => Promise<CommandResult>;

const step = (name: string, summary: string, action: Step) =>
  command({
    ...{ name, summary, takes: TAKES, help: EXAMPLES, uses: () => [...usesSigner(), "programs"] as const },
    run: async (flags: Given<typeof TAKES>, call) => await action(await open(flags, call), call),
  });

/** `ca rotate`: replaces the SSH CA; hosts accept valid certificates throughout. */
export const CA: CommandGroup = {
  name: "ca",
  summary: "Manage the SSH CA.",
  commands: [{
    name: "rotate",
    summary: "Rotate the CA key without downtime.",
    help: EXAMPLES,
    commands: [
      step("begin", "Create the next key and let hosts trust both keys.", begin),
      step("status", "Show which hosts trust which key.", status),
      step("finish", "Sign with the next key, then remove the previous one.", finish),
    ],
  }],
};

type RotatedHost = Host & { readonly principal: string };

interface Rotation {
  readonly flags: Given<typeof TAKES>;
  readonly keys: RotatedKeys;
  readonly hosts: readonly (readonly [name: string, host: RotatedHost])[];
  /** Hosts of the key that are skipped. */
  readonly except: readonly string[];
}

async function open(flags: Given<typeof TAKES>, call: Call): Promise<Rotation> {
  const config = await loadSignerFile(flags.config, call.workingFolder);
  const ring = planKeys(config);
  const keys = rotatedKeys(ring.fallback, call);
  if (keys === undefined) {
    throw new AppError("not_supported", "Cannot rotate: the default CA key is not in a file or an agent");
  }
  // Hosts of a group with its own key do not trust this one.
  const hosts = Object.entries(config.hosts)
    .filter(([, { groups = [] }]) => selectCaKey(ring, groups) === ring.fallback)
    .map(([name, host]) => [name, { ...host, principal: host.principal ?? "" }] as const);
  const { except = [] } = flags;
  const unknown = except.find((name) => !hosts.some(([known]) => known === name));
  if (unknown !== undefined) {
    throw notFound(`Cannot skip ${quoteText(unknown)}: no host of this name trusts the key`);
  }
  return { flags, keys, except, hosts: hosts.filter(([name]) => !except.includes(name)) };
}

async function begin({ flags, keys, hosts }: Rotation): Promise<CommandResult> {
  const { next, old } = rotationFiles(keys.path);
  if (await keys.readPublic(old) !== undefined) {
    const problem = "Cannot begin: the previous rotation is not finished";
    throw conflict(problem, undefined, "broker-ctl ca rotate finish");
  }
  const current = needKey(await keys.readPublic(keys.path), keys.path);
  if (await keys.readPublic(next) === undefined) await keys.make(next);
  const nextKey = await keys.load(next);
  const ca = [current, nextKey].map(caLine);
  // Reject a key that equals the current one, because finish would otherwise remove the current key from the
  // hosts.
  if (ca[0] === ca[1]) {
    throw conflict(`Cannot use ${quoteText(next)}: it is the current key; write another key there`);
  }
  const results = await trustOnHosts(hosts, flags, nextKey, { ca });
  return report(results, { step: "begin", next: caLine(nextKey) }, [
    `the next CA key is in ${next}: ${caLine(nextKey)}`,
    ...flags.over === undefined
      ? ["Next: broker-ctl host enroll for each host, or this command with --over ssh"]
      : [],
  ]);
}

async function status({ flags, keys, hosts }: Rotation): Promise<CommandResult> {
  const { next, old, switched } = rotationFiles(keys.path);
  const since = await ifThere(readRegularText(switched));
  const step = await keys.readPublic(next) !== undefined
    ? "begun: the previous key signs"
    : await keys.readPublic(old) === undefined
    ? "no rotation in progress"
    : since === undefined
    ? "the next key signs after a reload of the signer"
    : `the next key signs, since ${since}`;
  const results = await onHosts(hosts, flags, (name, host) => trustOf(name, host, flags, keys));
  return report(results, { step }, [step]);
}

async function finish({ flags, keys, hosts, except }: Rotation, call: Call): Promise<CommandResult> {
  if (flags.over === undefined) throw invalid("Cannot finish without checking the hosts: pass --over ssh");
  const { path } = keys;
  const { next, old, switched } = rotationFiles(path);
  const nextKey = await keys.readPublic(next);
  if (nextKey === undefined && await keys.readPublic(old) === undefined) {
    throw conflict("Cannot finish: no rotation in progress", undefined, "broker-ctl ca rotate begin");
  }
  if (nextKey !== undefined) {
    // Load the next key, because an agent may have lost it.
    await keys.load(next);
    const results = await onHosts(hosts, flags, (name, host) => trustOf(name, host, flags, keys));
    const behind = results.filter(({ trustsNext }) => trustsNext !== true);
    if (behind.length > 0) {
      return report(behind.map((each) => ({ ...each, done: false })), { step: "begin" }, [
        "nothing was changed: these hosts do not trust the next key and would reject its certificates",
      ]);
    }
    await recordSkippedHosts(path, except, "was not checked for the next key");
    await switchKeys(path, { next, old, nextKey });
  }
  if (await ifThere(Deno.stat(switched)) === undefined) {
    await askReload(call);
    await createFile(switched, new Date(systemClock.now()).toISOString(), 0o644);
  }
  let since = Date.parse((await readRegularText(switched)).trim());
  if (Number.isNaN(since)) {
    // If the time cannot be read, the wait starts again.
    since = systemClock.now();
    await replaceFile(switched, new Date(since).toISOString());
  }
  const minutes = Math.ceil((since + OVERLAP_MS - systemClock.now()) / 60_000);
  if (minutes > 0) {
    const line =
      `the next key signs; run finish again in ${minutes} minutes, when certificates of the previous key have expired`;
    return { json: { step: "switched", minutes }, lines: [line] };
  }
  const [current, former] = [await keys.load(path), needKey(await keys.readPublic(old), old)];
  const keyLines = { ca: [caLine(current)], dropCa: [caLine(former)] };
  const results = await trustOnHosts(hosts, flags, current, keyLines);
  if (results.every(({ done }) => done)) {
    await recordSkippedHosts(path, except, "may still trust the previous key");
    await Deno.remove(switched);
    await Deno.rename(old, `${path}.retired-${systemRandom.bytes(4).toHex()}`);
  }
  return report(results, { step: "finished", except }, [
    `hosts trust ${caLine(current)}`,
    ...except.map((name) => `${name} was skipped: it may trust the previous key until you enroll it again`),
  ]);
}

/** Records the skipped hosts, because the files of the previous key will be gone. */
async function recordSkippedHosts(path: string, except: readonly string[], what: string): Promise<void> {
  const time = new Date(systemClock.now()).toISOString();
  const lines = except.map((name) => `${time} ${name} ${what}\n`).join("");
  if (lines !== "") await Deno.writeTextFile(`${path}.excepted`, lines, { append: true, mode: 0o600 });
}

/** Keeps the previous key under another name, then replaces it. Can be repeated after an interruption. */
async function switchKeys(
  path: string,
  { next, old, nextKey }: { readonly next: string; readonly old: string; readonly nextKey: PublicHalf },
): Promise<void> {
  const [text, nextText] = [await readRegularText(path), await readRegularText(next)];
  if (text !== nextText) {
    const kept = await ifThere(readRegularText(old));
    if (kept === undefined) await createFile(old, text, 0o600);
    else if (kept !== text) {
      throw conflict(`Cannot keep the previous key: ${quoteText(old)} is another key; move it away first`);
    }
    // Keep owner and mode, so that the signer can read the new key.
    await replaceFile(path, nextText);
  }
  const pub = `${path}.pub`;
  if (await ifThere(Deno.stat(pub)) !== undefined) await replaceFile(pub, `${caLine(nextKey)}\n`);
  await Deno.remove(next);
}

interface HostResult {
  readonly name: string;
  readonly done: boolean;
  readonly lines: readonly string[];
  readonly trustsNext?: boolean;
}

/** The keys of the rotation that a host trusts. */
async function trustOf(
  name: string,
  host: RotatedHost,
  { sshdConfig, login = "root" }: Rotation["flags"],
  { path, readPublic }: RotatedKeys,
): Promise<Omit<HostResult, "name">> {
  const { user, principal } = host;
  const script = formatEnrollScript({ mode: "status", user, principal, sshdConfig, ca: [] });
  const { code, lines } = await runOverSsh(name, host, { script, login });
  if (code !== 0) return { done: false, lines };
  const { next, old } = rotationFiles(path);
  const trusts = async (file: string) => {
    const key = await readPublic(file);
    if (key === undefined) return undefined;
    const [algorithm = "", blob = ""] = caLine(key).split(" ");
    return lines.includes(`ca: ${algorithm} ${blob}`);
  };
  const [current, coming, former] = [await trusts(path), await trusts(next), await trusts(old)];
  const keys = { "the current key": current, "the next key": coming, "the previous key": former };
  const found = Object.entries(keys).flatMap(([what, isTrusted]) =>
    isTrusted === undefined ? [] : [`${isTrusted ? "trusts" : "does NOT trust"} ${what}`]
  );
  return { done: current === true && coming !== false, lines: found, trustsNext: coming === true };
}

/** Configures each host to trust keys, and tries a login with a certificate of `key`. */
function trustOnHosts(
  hosts: Rotation["hosts"],
  flags: Rotation["flags"],
  key: CaKey,
  lines: Pick<EnrollOptions, "ca" | "dropCa">,
): Promise<readonly HostResult[]> {
  const { sshdConfig, login = "root" } = flags;
  return onHosts(hosts, flags, (name, host) => {
    const { user, principal } = host;
    const options = { mode: "add", user, principal, sshdConfig, ...lines } as const;
    return carryOut({ name, host, login, options, key });
  });
}

/** Continues after a failed host. Several names of one machine are processed in turn, because an enrollment locks it. */
async function onHosts(
  hosts: Rotation["hosts"],
  { over }: Rotation["flags"],
  action: (name: string, host: RotatedHost) => Promise<Omit<HostResult, "name">>,
): Promise<readonly HostResult[]> {
  if (over === undefined) return [];
  const machines = [...Map.groupBy(hosts, ([, { addr }]) => addr).values()];
  return await inBatches(machines, AT_A_TIME, async (names) => {
    const results: HostResult[] = [];
    for (const [name, host] of names) {
      try {
        results.push({ name, ...await action(name, host) });
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        results.push({ name, done: false, lines: [error.message] });
      }
    }
    return results;
  });
}

function report(results: readonly HostResult[], json: object, lines: readonly string[]): CommandResult {
  const failed = results.some(({ done }) => !done);
  return {
    json: { ...json, hosts: results },
    lines: [
      ...lines,
      ...results.map(({ name, done, lines }) => `${done ? "ok  " : "FAIL"} ${name}: ${lines.join("; ")}`),
    ],
    failed,
  };
}
