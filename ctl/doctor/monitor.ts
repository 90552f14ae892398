import { systemClock, within } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { collectBytes } from "@gateway/shared/text";
import { reachable } from "../kit/addresses.ts";

const WAIT_MS = 5_000;
/** Metrics have a few kilobytes, but any program may answer. */
const MAX_BYTES = 1 << 20;
const LONGEST_TEXT = 300;

export function tooLate(): Error {
  return new Error(`no answer within ${WAIT_MS / 1000} s`);
}

/** Reads both pages of a monitor. */
export async function askMonitor(address: string) {
  const base = `http://${reachable(address)}`;
  return await within({ clock: systemClock, ms: WAIT_MS, late: tooLate }, async (signal) => {
    const [ready, metrics] = await Promise.all([
      readPage(`${base}/readyz`, signal),
      readPage(`${base}/metrics`, signal),
    ]);
    return { ready, metrics: metrics.text, time: metrics.time };
  });
}

async function readPage(url: string, signal: AbortSignal) {
  const { ok, body, headers } = await fetch(url, { signal, redirect: "error" });
  const bytes = body === null ? new Uint8Array() : await collectBytes(body, MAX_BYTES);
  if (bytes === undefined) throw new Error("its answer is too long");
  return { ok, text: new TextDecoder().decode(bytes), time: Date.parse(headers.get("date") ?? "") };
}

export async function readMonitor(address: string): Promise<ServiceStatus> {
  try {
    parseListenAddress(address);
  } catch (error) {
    throw new AppError("invalid_request", errorText(error), { cause: error });
  }
  try {
    const { ready, metrics, time } = await askMonitor(address);
    // The header has whole seconds, rounded down.
    const ahead = Math.round((time + 500 - systemClock.now()) / 1000);
    return readStatus({ address, ready, metrics, aheadSeconds: Number.isNaN(ahead) ? undefined : ahead });
  } catch (error) {
    return silentStatus(address, `it does not answer: ${errorText(error)}`);
  }
}

export function silentStatus(address: string, problem: string): ServiceStatus {
  return { ...readStatus({ address, ready: { ok: false, text: "" }, metrics: "" }), problem };
}

export type ServiceStatus = ReturnType<typeof readStatus>;

/**
 * Reads the answers of a monitor; a value that the monitor does not show is undefined.
 *
 * @param aheadSeconds by how much the clock of the service's machine is ahead of this one's
 */
export function readStatus({ address, ready, metrics, aheadSeconds }: {
  readonly address: string;
  readonly ready: { readonly ok: boolean; readonly text: string };
  readonly metrics: string;
  readonly aheadSeconds?: number | undefined;
}) {
  const samples = parseSamples(metrics);
  const of = (name: string) => samples.filter((sample) => sample.name === name);
  const value = (name: string) => of(name)[0]?.value;
  const [build] = of("gateway_build_info");
  const [database] = of("state_database_info");
  const [first] = of("certificate_expiry_timestamp_seconds").toSorted((a, b) => a.value - b.value);
  return {
    address,
    isReady: ready.ok && build !== undefined,
    problem: build === undefined
      ? "what answers there is no service of the gateway"
      : ready.ok
      ? ""
      : ready.text.trim().slice(0, LONGEST_TEXT),
    /** The instances that this one sees; empty if the state is its own. */
    members: of("state_member_info").map(({ labels }) => labels["instance"] ?? "").toSorted(),
    service: build?.labels["service"],
    version: build?.labels["version"],
    processId: value("gateway_process_id"),
    instance: of("state_instance_info")[0]?.labels["instance"],
    stateAgeSeconds: value("state_age_seconds"),
    database: database && `${database.labels["server"]} ${database.labels["role"]}`,
    krlVersion: value("krl_version"),
    certificate: first && { name: first.labels["certificate"] ?? "", endsAt: first.value * 1000 },
    /** Compared with the database; without a database, with this machine. */
    clockOffsetSeconds: value("state_clock_offset_seconds") ?? aheadSeconds,
  };
}

/** Prometheus' text format; other lines are ignored. */
function parseSamples(text: string) {
  return text.split("\n").flatMap((line) => {
    const match = /^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    const value = match?.[3] === "+Inf" ? Infinity : Number(match?.[3]);
    if (match === null || Number.isNaN(value)) return [];
    const labels: Readonly<Record<string, string>> = Object.fromEntries(
      [...(match[2] ?? "").matchAll(/\b([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"/g)]
        .map(([, key = "", quoted = ""]) => [key, quoted.replaceAll(/\\(.)/g, unescape)]),
    );
    return [{ name: match[1] ?? "", labels, value }];
  });
}

function unescape(_all: string, character: string): string {
  return character === "n" ? "\n" : character;
}
