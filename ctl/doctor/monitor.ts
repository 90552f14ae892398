import { systemClock, within } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { collectBytes, quoteText, shellQuote } from "@gateway/shared/text";
import { reachable } from "../kit/values.ts";
import { resolve } from "node:path";
import { command } from "../kit/command.ts";
import { CONFIG_KINDS, loadLocalBroker, loadNeighbor, loadSignerFile } from "../kit/signer_file.ts";
import { invalid, notFound } from "../kit/output.ts";
import { type Cell, EMPTY_CELL, timeCell } from "../kit/table.ts";

const WAIT_MS = 5_000;
/** Metrics have a few kilobytes, but any program can respond at this address. */
const MAX_BYTES = 1 << 20;
const LONGEST_TEXT = 300;

export function tooLate(): Error {
  return new Error(`no response within ${WAIT_MS / 1000} s`);
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
  if (bytes === undefined) throw new Error("its response is too long");
  return { ok, text: new TextDecoder().decode(bytes), time: Date.parse(headers.get("date") ?? "") };
}

async function readMonitor(address: string): Promise<ServiceStatus> {
  try {
    parseListenAddress(address);
  } catch (error) {
    throw invalid(errorText(error), error);
  }
  try {
    const { ready, metrics, time } = await askMonitor(address);
    // The header has whole seconds, rounded down.
    const ahead = Math.round((time + 500 - systemClock.now()) / 1000);
    return readStatus({ address, ready, metrics, aheadSeconds: Number.isNaN(ahead) ? undefined : ahead });
  } catch (error) {
    return silentStatus(address, `no response: ${errorText(error)}`);
  }
}

export function silentStatus(address: string, problem: string): ServiceStatus {
  return { ...readStatus({ address, ready: { ok: false, text: "" }, metrics: "" }), problem };
}

export type ServiceStatus = ReturnType<typeof readStatus>;

/**
 * Reads the pages of a monitor. A value that the monitor does not report is undefined.
 *
 * @param aheadSeconds the offset of the service's clock from this machine's clock
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
      ? "the server at this address is not a service of the gateway"
      : ready.ok
      ? ""
      : ready.text.trim().slice(0, LONGEST_TEXT),
    /** The instances that this one sees; empty if the state is not shared. */
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

/** An operator needs about a week to replace a certificate. */
const SOON_MS = 7 * 86_400_000;
const MOST_OFFSET_SECONDS = 2;

const HEADING = [
  ...["SERVICE", "INSTANCE", "+MONITOR", "READY", "VERSION", "+STATE AGE", "DATABASE", "+KRL"],
  ...["CERTIFICATE EXPIRES", "+CLOCK"],
];

export const STATUS = command({
  name: "status",
  summary: "Show the status of all services.",
  takes: { "[monitor...]": "monitor addresses, host:port" },
  help: `
Examples:
  broker-ctl status --config gateway/signer.json
  broker-ctl status signer-1.internal:9160 signer-2.internal:9160 cp-1.internal:9170 cp-2.internal:9170
  broker-ctl status --json signer-1.internal:9160 signer-2.internal:9160

Shows readiness, version, age of the state, database server, version of the revocation list, next certificate expiry and
clock offset, as the services' monitors (monitor_listen) report them. Without addresses: the monitors of the signer's
config and of control-plane.json next to it. A local installation has no monitor. Exit code 1: there are problems, listed below the table.
`,
  async run({ monitor: monitors, config }, { workingFolder }) {
    const file = resolve(workingFolder, config ?? "signer.json");
    const local = monitors.length > 0 ? undefined : await loadLocalBroker(file);
    if (local?.monitor_listen === "") {
      const notes = [
        `${quoteText(file)} is a local installation: one process without a monitor`,
        `to check its files: broker-ctl doctor --config ${shellQuote(file)}`,
      ];
      return { json: { services: [], problems: [], notes }, lines: notes.map((note) => `note: ${note}`) };
    }
    const addresses = monitors.length > 0
      ? monitors
      : local !== undefined
      ? [local.monitor_listen]
      : await findMonitors(file);
    const services = await Promise.all([...new Set(addresses)].map(readMonitor));
    const { problems, notes } = judge(services, systemClock.now());
    return {
      json: { services, problems, notes },
      lines: [
        { none: "", columns: HEADING, rows: services.map(cellsOf) },
        "",
        ...notes.map((note) => `note: ${note}`),
        ...problems.map((each) => `problem: ${each}`),
        ...(problems.length === 0 ? ["All services are healthy."] : []),
      ],
      failed: problems.length > 0,
    };
  },
});

function cellsOf({ isReady, certificate, ...status }: ServiceStatus): readonly (string | Cell)[] {
  const seconds = (value: number | undefined) => value === undefined ? undefined : `${value.toFixed(1)} s`;
  const end = new Date(certificate?.endsAt ?? 0).toISOString();
  return [
    ...[status.service, status.instance, status.address, isReady ? "yes" : "NO", status.version],
    ...[seconds(status.stateAgeSeconds), status.database, status.krlVersion],
    certificate && { ...timeCell(end, systemClock.now()), wide: end.slice(0, 10) },
    seconds(status.clockOffsetSeconds),
  ].map((cell) => typeof cell === "object" ? cell : `${cell ?? EMPTY_CELL}`);
}

async function findMonitors(signerPath: string): Promise<readonly string[]> {
  const signer = await loadSignerFile(signerPath, "/");
  const controlPlane = await loadNeighbor(signerPath, "control-plane.json", CONFIG_KINDS.controlPlane);
  const listeners = [signer.monitor_listen, controlPlane?.config.monitor_listen ?? ""];
  const found = listeners.filter((each) => each !== "");
  if (found.length > 0) return found;
  throw notFound(`Cannot find a monitor: set monitor_listen in ${signerPath}, or pass addresses`);
}

/** Judges services by their own statuses, and by the instances that each of them sees. */
export function judge(services: readonly ServiceStatus[], now: number) {
  const known = services.filter(({ service }) => service !== undefined);
  const groups = Map.groupBy(known, ({ service }) => service);
  const perGroup = [...groups].map(([service = "", members]) => judgeGroup(service, members));
  return {
    problems: [
      ...services.flatMap((each) => judgeOne(each, now)),
      ...perGroup.flatMap(({ problems }) => problems),
    ],
    notes: perGroup.flatMap(({ notes }) => notes),
  };
}

function nameOf({ service, instance, address }: ServiceStatus): string {
  return service === undefined ? address : instance ?? `${service} at ${address}`;
}

function judgeOne(status: ServiceStatus, now: number): readonly string[] {
  const { certificate, clockOffsetSeconds = 0 } = status;
  const left = (certificate?.endsAt ?? Infinity) - now;
  const end = left > 0 ? `expires in ${Math.ceil(left / 86_400_000)} days` : "has expired";
  return [
    ...(status.problem === "" ? [] : [status.problem]),
    ...(left > SOON_MS ? [] : [`${certificate?.name} ${end}`]),
    ...(Math.abs(clockOffsetSeconds) <= MOST_OFFSET_SECONDS
      ? []
      : [`its clock is off by ${clockOffsetSeconds.toFixed(1)} s; run a time service`]),
  ].map((problem) => `${nameOf(status)}: ${problem}`);
}

/** Instances of one service share a database, or there is one instance. */
function judgeGroup(service: string, members: readonly ServiceStatus[]) {
  const named = new Set(members.flatMap(({ instance }) => instance ?? []));
  const seen = new Set(members.flatMap((each) => each.members));
  // An instance without a database cannot see the others.
  const problems = members.filter(({ isReady }) => isReady).flatMap((status) =>
    [...named.difference(new Set(status.members))].map((other) =>
      `${nameOf(status)}: does not see ${quoteText(other)}; it just started, or uses another database`
    )
  );
  const versions = new Set(members.map(({ version = "unknown" }) => version));
  const unasked = [...seen.difference(named)];
  const lists = new Set(members.flatMap(({ krlVersion }) => krlVersion ?? []));
  return {
    problems,
    notes: [
      ...(unasked.length === 0
        ? []
        : [`also running, but not checked: ${unasked.map(quoteText).join(", ")}`]),
      ...(versions.size < 2
        ? []
        : [`different versions are running: ${[...versions].toSorted().join(", ")}`]),
      ...(lists.size < 2 ? [] : ["the versions of the revocation list differ; check again"]),
    ].map((note) => `${service}: ${note}`),
  };
}
