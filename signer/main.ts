/**
 * The signer: holds the CA key and the policy, and issues short-lived certificates that are locked to one command.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { runDaemon } from "@gateway/shared/daemon";
import { exitCodeOf, LOG_FORMAT_HELP } from "@gateway/shared/service";
import { startSigner } from "./serve.ts";

const USAGE = `Usage: signer [options]

Issue SSH certificates that are locked to one command. The signer decides by the policy in its config. It writes each
decision to the audit log before it releases a certificate.

  --config <file>     config file (default: signer.json)
${LOG_FORMAT_HELP}
  --version           show the version; with --verbose also toolchain and platform
  -h, --help          show help

SIGHUP, or POST /v1/reload by a caller in reload_callers, reloads the config. SIGINT and SIGTERM stop the signer after
running requests. Exit codes: 0 success, 1 failure, 2 usage error.
`;

const main = () =>
  runDaemon(Deno.args, { name: "signer", usage: USAGE, defaultConfig: "signer.json", start: startSigner });

if (import.meta.main) Deno.exit(await exitCodeOf(main));
