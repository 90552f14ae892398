/**
 * The control plane: forwards brokers' requests to the signer, asks approvers and detects unusual requests.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { runDaemon } from "@gateway/shared/daemon";
import { exitCodeOf, LOG_FORMAT_HELP } from "@gateway/shared/service";
import { startControlPlane } from "./serve.ts";

const USAGE = `Usage: control-plane [options]

Forward requests of brokers to the signer. Requests that need approval, or that are unusual for their caller, wait until
an approver decides with broker-ctl approval, or with a browser at /ui/approvals.

  --config <file>     config file (default: control-plane.json)
${LOG_FORMAT_HELP}
  --version           show the version; with --verbose also toolchain and platform
  -h, --help          show help

SIGINT and SIGTERM stop the control plane after running requests. A changed config needs a restart.
Exit codes: 0 success, 1 failure, 2 usage error.
`;

const main = () =>
  runDaemon(Deno.args, {
    name: "control-plane",
    usage: USAGE,
    defaultConfig: "control-plane.json",
    start: startControlPlane,
  });

if (import.meta.main) Deno.exit(await exitCodeOf(main));
