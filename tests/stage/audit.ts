import assert from "node:assert/strict";
import { parseJson } from "@gateway/shared/json";
import { runBrokerCtl } from "./broker_ctl.ts";

/** Reads the records of an audit log with exact numbers; none if there is no log. */
export async function recordsOf(path: string): Promise<readonly Record<string, unknown>[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  return text.split("\n").filter((line) => line !== "")
    .map((line) => parseJson(line) as Record<string, unknown>);
}

export async function assertLogVerifies(log: string, key: string): Promise<void> {
  const { stdout } = await runBrokerCtl(["audit", "verify", "--all", "--log", log, "--key", key], "/");
  assert.match(new TextDecoder().decode(stdout), /^OK: \d+ entries, chain intact.*all signatures valid/);
}

/** Reads a metric from the monitor of a service; 0 if it is missing. */
export async function metricOf(
  { command }: { readonly command: { readonly monitor: string } },
  name: string,
): Promise<number> {
  const text = await (await fetch(`http://${command.monitor}/metrics`)).text();
  return Number(text.match(new RegExp(`^${name} (\\d+)$`, "m"))?.[1] ?? 0);
}
