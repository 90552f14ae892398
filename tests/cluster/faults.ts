/** Concurrent faults of a cluster. */
import type { Cluster, Instance } from "./cluster.ts";
import { pause, pick } from "./workload.ts";
import type { WireFault } from "./wire.ts";

/** Longer than an instance may decide without the database, and longer than the others wait for it. */
const LONGEST_MS = 4_000;

export type FaultCounts = Map<string, number>;

interface Fault {
  readonly name: string;
  readonly weight: number;
  run(): Promise<void>;
}

/** Breaks and repairs the cluster for a number of rounds. A round is one fault and its repair. */
export async function breakThings(
  cluster: Cluster,
  { rounds, clocks, say }: {
    readonly rounds: number;
    readonly clocks: boolean;
    readonly say: (round: number) => void;
  },
): Promise<FaultCounts> {
  const counts: FaultCounts = new Map();
  let begun = 0;
  const lane = async (faults: readonly Fault[]) => {
    while (begun < rounds) {
      say(++begun);
      const fault = pick(faults.flatMap((each) => Array.from({ length: each.weight }, () => each)));
      await fault.run();
      counts.set(fault.name, (counts.get(fault.name) ?? 0) + 1);
      await pause(Math.random() * 2_000);
    }
  };
  const processes = (instances: readonly Instance[]) => processFaults(cluster, instances, clocks);
  // A killed instance is not also stopped. All other faults can occur together.
  await Promise.all([
    lane(processes(cluster.signers)),
    lane(processes(cluster.controlPlanes)),
    ...cluster.wires.filter(({ name }) => name === "database").slice(0, 2).map(() =>
      lane(wireFaults(cluster))
    ),
    lane(serverFaults(cluster)),
  ]);
  return counts;
}

function shortTime(): number {
  // Half of the faults are too short to be detected.
  return Math.random() < 0.5 ? Math.random() * 500 : Math.random() * LONGEST_MS;
}

function processFaults(cluster: Cluster, instances: readonly Instance[], clocks: boolean): readonly Fault[] {
  const what = instances[0]?.member.service;
  return [
    {
      name: `${what}: kill -9`,
      weight: 2,
      run: () => cluster.restart(pick(instances)),
    },
    {
      name: `${what}: SIGSTOP`,
      weight: 3,
      async run() {
        const { process } = pick(instances);
        process?.kill("SIGSTOP");
        await pause(shortTime() * 1.25);
        process?.kill("SIGCONT");
      },
    },
    {
      name: `${what}: clock an hour off`,
      weight: clocks ? 2 : 0,
      async run() {
        const instance = pick(instances);
        await cluster.setClock(instance, pick([3_600, -3_600]));
        await pause(1_000 + shortTime());
        await cluster.setClock(instance, 0);
        await pause(1_000);
      },
    },
  ];
}

function wireFaults(cluster: Cluster): readonly Fault[] {
  const kinds: readonly WireFault[] = ["holds both", "holds requests", "holds answers", "resets", "is slow"];
  return ["clients", "database", "signer"].flatMap((name) =>
    kinds.map((kind) => ({
      name: `wire to ${name}: ${kind}`,
      weight: name === "database" ? 3 : 1,
      async run() {
        const { wires } = pick(cluster.wires.filter((each) => each.name === name));
        for (const wire of wires) wire.break(kind, pick([20, 200, 1_000, 5_000]));
        await pause(shortTime());
        for (const wire of wires) wire.mend();
      },
    }))
  );
}

function serverFaults(cluster: Cluster): readonly Fault[] {
  return [
    { name: "primary: kill -9, and promotion", weight: 2, run: () => cluster.failOver({ lingersMs: 0 }) },
    {
      name: "primary: replaced while some still use it",
      weight: 2,
      run: () => cluster.failOver({ lingersMs: LONGEST_MS }),
    },
    { name: "standby: killed, and back", weight: 1, run: () => cluster.withoutStandby(shortTime()) },
  ];
}
