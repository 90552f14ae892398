/**
 * The signer: holds the SSH certificate authority and the policy, and issues certificates locked to one
 * command for minutes.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { runDaemon } from "@gateway/shared/daemon";
import { exitCodeOf } from "@gateway/shared/service";
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

const main = () =>
  runDaemon(Deno.args, { name: "signer", usage: USAGE, defaultConfig: "signer.json", start: startSigner });

if (import.meta.main) Deno.exit(await exitCodeOf(main));
