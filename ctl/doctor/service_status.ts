/** What the monitor of a service says of it. */

/** One service, as its monitor shows it. What it does not show is `undefined`. */
export interface ServiceStatus {
  readonly address: string;
  /** `signer`; undefined: nothing answers there. */
  readonly service?: string;
  /** Its own name among those that share a database. */
  readonly instance?: string;
  readonly version?: string;
  /** The number of its process, where it runs. */
  readonly processId?: number;
  readonly isReady: boolean;
  /** Why it is not ready, or does not answer; empty when all is well. */
  readonly problem: string;
  /** Who lives, as it sees it; empty where the state is its own. */
  readonly members: readonly string[];
  readonly stateAgeSeconds?: number;
  /** Which server, and its role: `primary`. */
  readonly database?: string;
  readonly krlVersion?: number;
  /** The first of its certificates to end, and when; milliseconds since the epoch. */
  readonly certificate?: { readonly name: string; readonly endsAt: number };
  /** By how much its clock is ahead of the database's; without one, of this machine's. */
  readonly clockOffsetSeconds?: number;
}

interface MonitorAnswers {
  readonly address: string;
  readonly ready: { readonly ok: boolean; readonly text: string };
  readonly metrics: string;
  /** By how much its machine's clock is ahead of this one's; known to a second. */
  readonly aheadSeconds?: number;
}

const LONGEST_TEXT = 300;

/** Reads the answers of a monitor. */
export function readStatus({ address, ready, metrics, aheadSeconds }: MonitorAnswers): ServiceStatus {
  const samples = parseSamples(metrics);
  const of = (name: string) => samples.filter((sample) => sample.name === name);
  const value = (name: string) => of(name)[0]?.value;
  const label = (name: string, key: string) => of(name)[0]?.labels[key];
  const [build] = of("gateway_build_info");
  const [database] = of("state_database_info");
  const certificate = of("certificate_expiry_timestamp_seconds").toSorted((a, b) => a.value - b.value)[0];
  return {
    address,
    isReady: ready.ok && build !== undefined,
    problem: describeProblem(ready, build !== undefined),
    members: of("state_member_info").map(({ labels }) => labels["instance"] ?? "").toSorted(),
    ...optional("service", build?.labels["service"]),
    ...optional("version", build?.labels["version"]),
    ...optional("processId", value("gateway_process_id")),
    ...optional("instance", label("state_instance_info", "instance")),
    ...optional("stateAgeSeconds", value("state_age_seconds")),
    ...optional("database", database && `${database.labels["server"]} ${database.labels["role"]}`),
    ...optional("krlVersion", value("krl_version")),
    ...optional(
      "certificate",
      certificate && { name: certificate.labels["certificate"] ?? "", endsAt: certificate.value * 1000 },
    ),
    ...optional("clockOffsetSeconds", value("state_clock_offset_seconds") ?? aheadSeconds),
  };
}

/** A service that does not answer. */
export function silentStatus(address: string, problem: string): ServiceStatus {
  return { address, isReady: false, problem, members: [] };
}

function describeProblem(ready: MonitorAnswers["ready"], isGateway: boolean): string {
  if (!isGateway) return "what answers there is no service of the gateway";
  return ready.ok ? "" : ready.text.trim().slice(0, LONGEST_TEXT);
}

function optional<K extends string, T>(key: K, value: T | undefined): { readonly [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { readonly [P in K]?: T };
}

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Prometheus' text format, as far as it is needed: what is not of it is left out. */
function parseSamples(text: string): readonly Sample[] {
  return text.split("\n").flatMap((line) => {
    const match = /^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    const value = match?.[3] === "+Inf" ? Infinity : Number(match?.[3]);
    if (match === null || Number.isNaN(value)) return [];
    const labels = [...(match[2] ?? "").matchAll(/\b([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"/g)]
      .map(([, key = "", quoted = ""]) => [key, quoted.replaceAll(/\\(.)/g, unescape)] as const);
    return [{ name: match[1] ?? "", labels: Object.fromEntries(labels), value }];
  });
}

function unescape(_all: string, character: string): string {
  return character === "n" ? "\n" : character;
}
