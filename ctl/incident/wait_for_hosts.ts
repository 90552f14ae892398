import type { Command } from "commander";
import { AppError } from "@gateway/shared/errors";
import { systemClock } from "@gateway/shared/clock";
import { type KrlReader, type KrlStatus, krlStatus } from "@gateway/shared/wire";
import type { CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { askSigner } from "../kit/remote.ts";

/** How long hosts may take: a poll of theirs, and some more. */
const WAIT_MS = 30_000;
const PAUSE_MS = 200;

/**
 * Adds to the result of a revocation on which hosts it holds, once it holds on all of them or the time is up; failed
 * where one is behind.
 *
 * @param version of the list that has it; `undefined` where the signer publishes none
 */
export async function waitForHosts(
  command: Command,
  context: CommandContext,
  { result, version }: { readonly result: CommandResult; readonly version: number | undefined },
): Promise<CommandResult> {
  if (version === undefined) {
    const why = "hosts fetch no revocation list: the signer's config has no envelope_key";
    return { ...result, lines: [...result.lines, why], failed: true };
  }
  const status = await pollStatus(command, context, version);
  const spread = spreadOf(status, version);
  const none = status.readers.length === 0
    ? ["no host fetches it: krl_callers of the signer's config is empty"]
    : [];
  return {
    json: { ...asObject(result.json), krl_hosts: status },
    lines: [...result.lines, ...describeSpread(spread, version), ...none],
    failed: result.failed === true || spread.behind.length > 0 || none.length > 0,
  };
}

async function pollStatus(command: Command, context: CommandContext, version: number): Promise<KrlStatus> {
  const until = systemClock.now() + WAIT_MS;
  for (;;) {
    const { data } = await askSigner(command, context, {
      what: "wait for hosts",
      method: "GET",
      path: "/v1/krl/hosts",
      schema: krlStatus,
    });
    if (spreadOf(data, version).behind.length === 0 || systemClock.now() >= until) return data;
    await systemClock.sleep(PAUSE_MS, context.signal);
  }
}

function asObject(json: unknown): object {
  if (typeof json === "object" && json !== null) return json;
  throw new AppError("upstream_failure", "The signer's answer is not an object");
}

/** Where a version of the revocation list holds, and where not yet. */
interface KrlSpread {
  readonly current: number;
  readonly holds: readonly KrlReader[];
  readonly behind: readonly KrlReader[];
}

/**
 * Who has installed a version, or a later one. A later one than there is holds nothing of this signer's: a host never
 * takes an older list.
 */
export function spreadOf({ version: current, readers }: KrlStatus, version: number): KrlSpread {
  const holds = readers.filter(({ version: has = 0 }) => has >= version && has <= current);
  return { current, holds, behind: readers.filter((reader) => !holds.includes(reader)) };
}

/** A line for each host, those that are behind first. */
export function describeSpread({ current, holds, behind }: KrlSpread, version: number): readonly string[] {
  const count = holds.length + behind.length;
  return [
    `revocation list ${version}: installed by ${holds.length} of ${count}`,
    ...behind.map((reader) => `behind: ${describeReader(reader, current)}`),
    ...holds.map((reader) => `holds: ${nameOf(reader)}`),
  ];
}

function describeReader(reader: KrlReader, current: number): string {
  if (reader.version === undefined) return `${nameOf(reader)} has not asked since the signer's start`;
  if (reader.version > current) {
    return `${
      nameOf(reader)
    } has version ${reader.version}, later than any of this signer (now ${current}), and takes ` +
      "none of its lists: shim/KRL.md says what to do there";
  }
  return `${nameOf(reader)} has version ${reader.version}, asked at ${reader.seen_at ?? "?"}`;
}

/** The hosts, which operators know, before the identity that fetches for them. */
function nameOf({ caller, hosts }: KrlReader): string {
  return hosts.length === 0 ? caller : `${hosts.join(",")} (${caller})`;
}
