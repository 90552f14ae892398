import { dirname, join, resolve } from "node:path";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { systemClock } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import { AppError } from "@gateway/shared/errors";
import { ifThere } from "@gateway/shared/files";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import type { CommandResult } from "../kit/output.ts";
import { loadSignerFile } from "../kit/signer_file.ts";
import { judge } from "./judge.ts";
import { readMonitor } from "./read_monitor.ts";
import type { ServiceStatus } from "./service_status.ts";
import { EMPTY_CELL, formatTable } from "../kit/table.ts";

const EXAMPLES = `
Examples:
  broker-ctl status --config gateway/signer.json
  broker-ctl status signer-1.internal:9160 signer-2.internal:9160 cp-1.internal:9170 cp-2.internal:9170
  broker-ctl status --json signer-1.internal:9160 signer-2.internal:9160

Asks the monitors (monitor_listen) of services: who is ready, which version runs, how old the state is that it decides
by, which database server it is on, the version of its list of revoked certificates, when its first certificate ends,
and how far its clock is off. Without addresses: the monitor of the signer's config, and of control-plane.json beside
it. Exit code 1: something is wrong; what it is stands below the table.
`;

/** `status`: how the instances of a deployment are. */
export const addStatus: AddCommand = (program, context) => {
  program.command("status")
    .description("Show how signers, control planes and brokers are, all of a deployment at once.")
    .argument("[monitor...]", "addresses of monitors, host:port")
    .addHelpText("after", EXAMPLES)
    .action((monitors: readonly string[], _flags, command) =>
      context.run(command, ["config"], () => showStatus(monitors, command.optsWithGlobals(), context))
    );
};

const HEADING = [
  ...["SERVICE", "INSTANCE", "MONITOR", "READY", "VERSION", "STATE AGE", "DATABASE", "KRL"],
  ...["CERTIFICATE ENDS", "CLOCK"],
];

async function showStatus(
  monitors: readonly string[],
  { config }: { readonly config?: string },
  { workingFolder, terminal }: CommandContext,
): Promise<CommandResult> {
  if (monitors.length > 0 && config !== undefined) {
    throw new AppError("invalid_request", "name monitors, or --config, not both");
  }
  const addresses = monitors.length > 0
    ? monitors
    : await findMonitors(resolve(workingFolder, config ?? "signer.json"));
  const services = await Promise.all([...new Set(addresses)].map(readMonitor));
  const verdict = judge(services, systemClock.now());
  return {
    json: { services, ...verdict },
    lines: [
      ...formatTable(HEADING, services.map(cellsOf), terminal.columns),
      ...[
        "",
        ...verdict.notes.map((note) => `note: ${note}`),
        ...verdict.problems.map((each) => `wrong: ${each}`),
      ],
      ...(verdict.problems.length === 0 ? ["nothing is wrong"] : []),
    ],
    failed: verdict.problems.length > 0,
  };
}

function cellsOf(status: ServiceStatus): readonly string[] {
  const { service, instance, address, isReady, version, certificate } = status;
  const seconds = (value: number | undefined) => value === undefined ? EMPTY_CELL : `${value.toFixed(1)} s`;
  return [
    ...[
      service ?? EMPTY_CELL,
      instance ?? EMPTY_CELL,
      address,
      isReady ? "yes" : "NO",
      version ?? EMPTY_CELL,
    ],
    ...[seconds(status.stateAgeSeconds), status.database ?? EMPTY_CELL, `${status.krlVersion ?? EMPTY_CELL}`],
    certificate === undefined ? EMPTY_CELL : new Date(certificate.endsAt).toISOString().slice(0, 10),
    seconds(status.clockOffsetSeconds),
  ];
}

/** @throws {AppError} when a config can't be used, or names no monitor */
async function findMonitors(signerPath: string): Promise<readonly string[]> {
  const signer = await loadSignerFile(signerPath, "/");
  const path = join(dirname(signerPath), "control-plane.json");
  const isThere = await ifThere(Deno.stat(path)) !== undefined;
  const controlPlane = isThere
    ? await loadConfig({ path, what: "control plane config", schema: controlPlaneConfig })
    : undefined;
  const found = [signer.monitor_listen, controlPlane?.monitor_listen ?? ""].filter((each) => each !== "");
  if (found.length === 0) {
    throw new AppError(
      "not_found",
      `No monitor to ask: set monitor_listen in ${signerPath}, or name addresses`,
    );
  }
  return found;
}
