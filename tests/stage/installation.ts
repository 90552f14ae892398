/**
 * Creates installations with `broker-ctl init`, each in one directory. `init` takes as long as the start of two services,
 * so it runs once in a test file. Later installations are copies with another directory, other ports and the same keys.
 *
 * @module
 */
import { join, relative } from "node:path";
import { runBrokerCtl } from "./broker_ctl.ts";
import { freePort } from "./free_port.ts";

/** The paths that `broker-ctl init --json` reports. */
export interface InitReport {
  readonly folder: string;
  readonly signer_config: string;
  readonly control_plane_config: string;
  readonly broker_config: string;
  readonly mcp_config: string;
  readonly client_config: string;
  readonly ssh_ca: string;
  readonly ssh_ca_public: string;
  readonly ssh_ca_public_key: string;
  readonly mtls_ca: string;
  readonly signer_audit_log: string;
  readonly signer_audit_key: string;
  readonly control_plane_audit_log: string;
  readonly control_plane_audit_key: string;
  readonly broker_audit_log: string;
  readonly broker_audit_key: string;
  readonly mcp_audit_log: string;
  readonly mcp_audit_key: string;
  readonly envelope_key: string;
  readonly operator: Pair;
  readonly approver: Pair;
  readonly approver_bundle: string;
  readonly approvals_url: string;
  readonly agent: Pair;
  readonly broker: Pair;
  readonly control_plane_client: Pair;
}

interface Pair {
  readonly cert: string;
  readonly key: string;
}

/** The listeners, each of which gets a free port. */
const LISTENERS = ["signer", "control-plane", "broker"].flatMap((name) => [
  `--listen-${name}`,
  `--monitor-${name}`,
]);

interface Entry {
  readonly path: string;
  readonly mode: number;
  /** Absent for a directory. */
  readonly content?: Uint8Array<ArrayBuffer>;
}

interface SetUp {
  readonly report: string;
  /** The directory and the listeners, which differ between installations. */
  readonly places: readonly string[];
  readonly entries: readonly Entry[];
}

const made = new Map<string, Promise<SetUp>>();

/** Creates an installation in a new directory. */
export async function createInstallation(folder: string, flags: readonly string[]): Promise<InitReport> {
  const key = flags.join(" ");
  const former = made.get(key);
  if (former !== undefined) return await copySetUp(await former, folder);
  const first = runInit(folder, flags);
  made.set(key, first);
  first.catch(() => made.delete(key));
  return JSON.parse((await first).report);
}

async function runInit(folder: string, flags: readonly string[]): Promise<SetUp> {
  await Deno.mkdir(folder, { mode: 0o700 });
  const listeners = freeListeners();
  const choices = LISTENERS.map((flag, index) => `${flag}=${listeners[index]}`);
  const output = await runBrokerCtl(["init", "--json", "--dir", folder, ...choices, ...flags], folder);
  const decoder = new TextDecoder();
  if (!output.success) throw new Error(`broker-ctl init failed:\n${decoder.decode(output.stderr)}`);
  const entries = await Array.fromAsync(readEntries(folder, folder));
  return { report: decoder.decode(output.stdout), places: [folder, ...listeners], entries };
}

async function copySetUp({ report, places, entries }: SetUp, folder: string): Promise<InitReport> {
  const others = [folder, ...freeListeners()];
  const replace = (text: string) => text.replace(pattern(places), (place) => others[places.indexOf(place)]!);
  for (const { path, mode, content } of entries) {
    const target = join(folder, path);
    if (content === undefined) await Deno.mkdir(target, { mode });
    else await Deno.writeFile(target, replaceIn(content, replace), { mode, createNew: true });
  }
  return JSON.parse(replace(report));
}

/** Replaces text in a file. Keys are bytes and stay unchanged. */
function replaceIn(content: Uint8Array<ArrayBuffer>, replace: (text: string) => string) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
    return new TextEncoder().encode(replace(text));
  } catch {
    return content;
  }
}

function pattern(places: readonly string[]): RegExp {
  return new RegExp(places.map((place) => RegExp.escape(place)).join("|"), "g");
}

function freeListeners(): readonly string[] {
  return LISTENERS.map(() => `127.0.0.1:${freePort()}`);
}

/** Lists the directory and everything in it; a directory precedes its content. */
async function* readEntries(root: string, folder: string): AsyncGenerator<Entry> {
  yield { path: relative(root, folder), mode: await modeOf(folder) };
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) yield* readEntries(root, path);
    else if (isFile) {
      yield { path: relative(root, path), mode: await modeOf(path), content: await Deno.readFile(path) };
    } else throw new Error(`neither file nor directory: ${path}`);
  }
}

async function modeOf(path: string): Promise<number> {
  return (await Deno.stat(path)).mode! & 0o777;
}
