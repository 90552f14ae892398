/**
 * The control plane: stands between brokers and the signer, has commands that need it approved by a second human,
 * and watches for unusual requests.
 *
 * @module
 */
import "@gateway/shared/service/no_storage";
import { runDaemon } from "@gateway/shared/daemon";
import { exitCodeOf } from "@gateway/shared/service";
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

const main = () =>
  runDaemon(Deno.args, {
    name: "control-plane",
    usage: USAGE,
    defaultConfig: "control-plane.json",
    start: startControlPlane,
  });

if (import.meta.main) Deno.exit(await exitCodeOf(main));
