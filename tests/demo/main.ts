/**
 * `deno task demo`: runs and explains the main scenario in a temporary directory and then deletes it.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { errorText } from "@gateway/shared/errors";
import { encodePkcs12, randomPassword } from "../../ctl/identities/pkcs12.ts";
import { systemRandom } from "@gateway/shared/clock";
import { brokerCommand } from "../stage/service_command.ts";
import { createClusterSteps } from "./cluster_steps.ts";
import { jsonReporter, type Reporter, type Step, terminalReporter } from "./reporter.ts";
import { createSteps } from "./steps.ts";

const USAGE = `Usage: deno task demo [--kubernetes] [--json] [--keep]

Create an installation in a temporary directory, run the main scenario and explain each step.

  --kubernetes  use a cluster instead of an SSH host: a real API server if KUBEBUILDER_ASSETS names the directory
                of kube-apiserver and etcd, otherwise an embedded one
  --json        print one JSON object for each step: {"step", "ok", ...}
  --keep        keep the services running until Ctrl-C and print how to reach them; not with --kubernetes

Exit codes: 0 if every step succeeded, 1 if a step failed, 2 usage error. The demo deletes all its files, also after
Ctrl-C.
`;

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const satisfies readonly Deno.Signal[];

/** Describes how to reach the services that the demo keeps running. */
async function describeAccess(dir: string): Promise<string> {
  const folder = `${dir}/gateway`;
  const { args } = await brokerCommand(`${folder}/mcp.json`, "serve-mcp");
  const pki = `${folder}/pki/approver`;
  const approver = {
    certPem: await Deno.readTextFile(`${pki}.crt`),
    keyPem: await Deno.readTextFile(`${pki}.key`),
  };
  const password = randomPassword(systemRandom);
  const bundle = encodePkcs12(approver, { password, name: "approver-local", random: systemRandom });
  await Deno.writeFile(`${pki}.p12`, bundle);
  const mcpServers = { gateway: { command: Deno.execPath(), args } };
  const listen = await readListen(`${folder}/config.json`);
  const approvals = await readListen(`${folder}/control-plane.json`);
  return `
The services run until Ctrl-C. The demo then deletes all its files. As the agent, over HTTP:

  curl --cert ${folder}/pki/agent.crt --key ${folder}/pki/agent.key --cacert ${folder}/pki/mtls_ca.crt \\
    -H 'Content-Type: application/json' -d '{"host":"web01","command":"uptime"}' \\
    https://${listen}/v1/ssh_run

The command "ls -d ${dir}/maintenance" waits for the approver. In a terminal:

  deno task broker-ctl approval list --client-config ${folder}/broker-ctl.json
  deno task broker-ctl approval allow <id> --client-config ${folder}/broker-ctl.json

Or in a browser: open its certificate settings. Import ${folder}/pki/approver.p12 as
your certificate (password: ${password}) and ${folder}/pki/mtls_ca.crt as an
authority, which is valid for this machine only. Remove both afterwards. Then open

  https://${approvals}/ui/approvals

As the operator, after a change to the policy in ${folder}/signer.json:

  deno task broker-ctl reload --client-config ${folder}/broker-ctl.json

In the settings of an MCP client:

${JSON.stringify({ mcpServers }, null, 2).replace(/^/gm, "  ")}
`;
}

async function readListen(path: string): Promise<string> {
  const [, listen = ""] = /"listen": "([^"]+)"/.exec(await Deno.readTextFile(path)) ?? [];
  return listen;
}

async function main(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      kubernetes: { type: "boolean" },
      json: { type: "boolean" },
      keep: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) {
    write(USAGE);
    return 0;
  }
  if (values.kubernetes && values.keep) {
    write("cannot use --keep with --kubernetes: --keep supports only the demo with an SSH host\n");
    return 2;
  }
  const interrupted = Promise.withResolvers<Deno.Signal>();
  for (const signal of SIGNALS) Deno.addSignalListener(signal, () => interrupted.resolve(signal));
  const stop = new AbortController();
  interrupted.promise.then((signal) => stop.abort(new Error(signal)));

  const dir = await Deno.makeTempDir({ prefix: "gateway-demo-" });
  await using resources = new AsyncDisposableStack();
  resources.defer(() => Deno.remove(dir, { recursive: true }));
  const reporter = values.json ? jsonReporter(write) : terminalReporter(write, { color: mayColor(), dir });
  const create = values.kubernetes ? createClusterSteps : createSteps;
  const failed = await play(create(dir, resources, stop.signal), reporter, stop.signal);
  if (failed !== undefined) reporter.say(`\nThe demo stopped: step "${failed}" failed.`);
  if (stop.signal.aborted) return 130;
  if (failed !== undefined) return 1;
  if (values.keep) {
    reporter.say(await describeAccess(dir));
    await interrupted.promise;
  } else {
    reporter.say("\nEvery step did what its title says. Next, a host of your own: docs/quickstart.md");
  }
  return 0;
}

/** Runs the steps until one fails or the demo is interrupted. Returns the name of the failed step. */
async function play(
  steps: readonly Step[],
  reporter: Reporter,
  stop: AbortSignal,
): Promise<string | undefined> {
  for (const step of steps) {
    if (stop.aborted) return undefined;
    reporter.begin(step);
    const start = performance.now();
    const result = await step.run().catch((error: unknown) => ({
      ok: false,
      shows: errorText(error),
    }));
    if (stop.aborted) return undefined;
    reporter.end(step, result, performance.now() - start);
    if (!result.ok) return step.name;
  }
  return undefined;
}

function mayColor(): boolean {
  return Deno.stdout.isTerminal() && !Deno.noColor;
}

function write(text: string): void {
  let rest = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}

if (import.meta.main) {
  try {
    Deno.exitCode = await main(Deno.args);
  } catch (error) {
    Deno.stderr.writeSync(new TextEncoder().encode(`${errorText(error)}\n`));
    Deno.exitCode = 2;
  }
  Deno.exit();
}
