import { resolve } from "node:path";
import { visibleText } from "@gateway/shared/text";
import { type Call, command } from "../kit/command.ts";
import type { CommandResult } from "../kit/output.ts";
import { REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";
import { signalSigner } from "./signal_signer.ts";
import { askReload } from "../kit/signer_change.ts";

const EXAMPLES = `
Examples:
  broker-ctl reload --client-config gateway/broker-ctl.json
  broker-ctl reload --url 10.0.0.9:9443 --cert me.crt --key me.key --ca ca.crt
  broker-ctl reload --config gateway/signer.json --pid-file signer.pid

It asks over HTTPS (POST /v1/reload), and says whether the signer took the new config; one that can't be used
changes nothing. Where HTTPS won't do, --pid-file sends SIGHUP to the process of this machine that the file names,
and whether the config was taken is in the signer's own log. The signer writes no such file; whoever starts it can:
  sh -c 'echo $$ > signer.pid; exec ctl/start.sh signer --config gateway/signer.json'
The number in a file outlives its process: none but a signer that was started with this --config gets the signal,
and otherwise it is asked over HTTPS. A service manager needs no file: systemctl reload gateway-signer.
With auto_reload_seconds in its config the signer looks at the file's time by itself.
${REMOTE_HELP}`;

/** `reload`: the signer reads its config again. */
export const RELOAD = command({
  name: "reload",
  summary: "Have the signer read its config again.",
  takes: {
    ...SIGNER,
    "--pid-file <file>": "send SIGHUP to the signer that this file names, instead of asking",
  },
  help: EXAMPLES,
  uses: ({ pidFile }) => pidFile === undefined ? usesSigner() : [...usesSigner(), "programs"],
  run: async (given, call) => {
    const signalled = await signal(given, call);
    if (signalled !== undefined) return signalled;
    const { hosts, status } = await askReload(call);
    return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
  },
});

async function signal(
  { pidFile, config = "signer.json" }: { readonly pidFile?: string; readonly config?: string },
  { workingFolder, terminal }: Call,
): Promise<CommandResult | undefined> {
  if (pidFile === undefined) return undefined;
  const signalled = await signalSigner(resolve(workingFolder, pidFile), resolve(workingFolder, config));
  if (signalled.sent) {
    const { pid } = signalled;
    return { json: { signal: "SIGHUP", pid }, lines: [`SIGHUP sent to signer (PID ${pid})`] };
  }
  terminal.err(`${visibleText(`no signal was sent: ${signalled.why}; asking over HTTPS`)}\n`);
  return undefined;
}
