/**
 * The control plane: stands between brokers and the signer, has commands that need it approved by a second human,
 * and watches for unusual requests.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { systemClock, systemElapsed, systemRandom } from "@gateway/shared/clock";
import { signerUrls } from "@gateway/shared/config";
import { configureLogging, getServiceLogger } from "@gateway/shared/service/log";
import { describeVersion, exitCodeOf, parseServiceArguments, waitForStop } from "@gateway/shared/service";
import { describeStateDb } from "@gateway/shared/state";
import { startControlPlane } from "./serve.ts";

const USAGE = `Usage: control-plane [--config control-plane.json]

Forwards the requests of brokers to the signer in their name. What the policy wants approved, or what is unusual
for whoever asks, waits until a second human has decided.

  --config f   the config file (default control-plane.json; a single dash works too)
  --version    prints the version; with --verbose also toolchain and platform
  --help       prints this

Approvers decide with broker-ctl approval, or with a browser at /ui/approvals.
SIGINT and SIGTERM stop it after the requests under way. A changed config needs a restart.
`;

/** Runs the control plane until it is told to stop. */
async function main(args: readonly string[]): Promise<number> {
  const options = parseServiceArguments(args, { defaultConfig: "control-plane.json" });
  if (options.help) return print(USAGE);
  if (options.version) return print(`${describeVersion({ verbose: options.verbose })}\n`);
  configureLogging();
  const logger = getServiceLogger("control-plane");
  const controlPlane = await startControlPlane({
    configPath: options.config,
    clock: systemClock,
    elapsed: systemElapsed,
    readHostname: () => Deno.hostname(),
    random: systemRandom,
    readEnv: (name) => Deno.env.get(name),
    fetch,
    logger,
  });
  const { address, config } = controlPlane;
  logger.info("control plane ready", {
    listen: `${address.hostname}:${address.port}`,
    signer: signerUrls(config.signer).join(" "),
    approvers: config.approval.callers.length,
    behavior: config.behavior.mode,
    ...(config.state_db !== "" &&
      { state_db: describeStateDb(config.state_db), approvals: controlPlane.restored }),
  });
  const name = await waitForStop();
  logger.info("control plane stopping", { signal: name });
  await controlPlane.close();
  return 0;
}

function print(text: string): number {
  writeAllSync(Deno.stdout, text);
  return 0;
}

if (import.meta.main) Deno.exit(await exitCodeOf(() => main(Deno.args)));
