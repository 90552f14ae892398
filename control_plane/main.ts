/**
 * The control plane: forwards brokers' requests to the signer, asks approvers and detects unusual requests.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { runDaemon } from "@gateway/shared/daemon";
import { exitCodeOf } from "@gateway/shared/service";
import { startControlPlane } from "./serve.ts";

const USAGE = `Usage: control-plane [--config control-plane.json]

Forwards the requests of brokers to the signer. Requests that need approval, or that are unusual for their caller,
wait until an approver decides.

  --config f   config file (default control-plane.json)
  --version    print the version; with --verbose toolchain and platform
  --help       show help

Approvers decide with broker-ctl approval, or with a browser at /ui/approvals.
SIGINT and SIGTERM stop the control plane after running requests. A changed config needs a restart.
`;

const main = () =>
  runDaemon(Deno.args, {
    name: "control-plane",
    usage: USAGE,
    defaultConfig: "control-plane.json",
    start: startControlPlane,
  });

if (import.meta.main) Deno.exit(await exitCodeOf(main));
