/**
 * The signer: holds the SSH certificate authority and the policy, and issues certificates locked to one
 * command for minutes.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { writeAllSync } from "@gateway/shared/text";
import { systemClock, systemElapsed, systemRandom } from "@gateway/shared/clock";
import { configureLogging, getServiceLogger } from "@gateway/shared/service/log";
import { describeVersion, exitCodeOf, parseServiceArguments, waitForStop } from "@gateway/shared/service";
import { startSigner } from "./serve.ts";

const USAGE = `Usage: signer [--config signer.json]

Issues SSH certificates that are locked to one command, to brokers that prove themselves by a client
certificate. The policy in the config decides; every decision is in the audit log before it is released.

  --config f   the config file (default signer.json; a single dash works too)
  --version    prints the version; with --verbose also toolchain and platform
  --help       prints this

SIGHUP, or POST /v1/reload by a caller in reload_callers, reads the config again.
SIGINT and SIGTERM stop it after the requests under way.
`;

async function main(args: readonly string[]): Promise<number> {
  const options = parseServiceArguments(args, { defaultConfig: "signer.json" });
  if (options.help) return print(USAGE);
  if (options.version) return print(`${describeVersion({ verbose: options.verbose })}\n`);
  await configureLogging();
  const logger = getServiceLogger("signer");
  const signer = await startSigner({
    configPath: options.config,
    clock: systemClock,
    elapsed: systemElapsed,
    readHostname: () => Deno.hostname(),
    random: systemRandom,
    readEnv: (name) => Deno.env.get(name),
    logger,
  });
  const { hostname, port } = signer.address;
  logger.info("signer ready", {
    listen: `${hostname}:${port}`,
    hosts: signer.state.current.policy.hosts.size,
  });
  // A failed reload is logged and audited there.
  const reload = () => void signer.state.reload("SIGHUP").catch(() => undefined);
  Deno.addSignalListener("SIGHUP", reload);
  const name = await waitForStop();
  logger.info("signer stopping", { signal: name });
  Deno.removeSignalListener("SIGHUP", reload);
  await signer.close();
  return 0;
}

function print(text: string): number {
  writeAllSync(Deno.stdout, text);
  return 0;
}

if (import.meta.main) Deno.exit(await exitCodeOf(() => main(Deno.args)));
