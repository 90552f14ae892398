import { resolve } from "node:path";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { type Call, command, type CommandGroup, oneOf, required } from "../kit/command.ts";
import { readOperatorFile, readOperatorText } from "../kit/files.ts";
import { hintMissingConfig, invalid } from "../kit/output.ts";
import { REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";
import { runToEnd } from "../kit/programs.ts";
import { askReload } from "../kit/signer_change.ts";
import { describeVersion, VERSION } from "@gateway/shared/service";
import { createEnvelopeKey, envelopePublicKeyText, envelopeSignersLine } from "@gateway/shared/envelope";
import { BROKER_FRONTENDS } from "@gateway/broker/permissions";
import { formatJson } from "@gateway/shared/permissions";
import { derivePermissions, SERVICES, TARGETS } from "./service_permissions.ts";

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
    const signalled = given.pidFile === undefined
      ? undefined
      : await signal(given.pidFile, given.config, call);
    if (signalled !== undefined) return signalled;
    const { hosts, status } = await askReload(call);
    return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
  },
});

/** A number alone: `kill` would send to every process for -1, and to its own group for 0. */
const PID = /^[1-9]\d{0,9}$/;

/**
 * Sends SIGHUP to the process in a PID file if it is the signer of this config: the number in a file outlives its
 * process, and can belong to another process.
 *
 * @returns undefined if no signal was sent
 */
async function signal(pidFile: string, config: string | undefined, { workingFolder, terminal }: Call) {
  const path = resolve(workingFolder, pidFile);
  const configPath = resolve(workingFolder, config ?? "signer.json");
  const pid = (await readOperatorText(path, "pid file")).trim();
  if (!PID.test(pid)) {
    throw invalid(`Cannot use ${quoteText(path)}: expected the number of a process`);
  }
  const why = await trySignal(pid, configPath);
  if (why === undefined) {
    return { json: { signal: "SIGHUP", pid: Number(pid) }, lines: [`SIGHUP sent to signer (PID ${pid})`] };
  }
  terminal.err(`${visibleText(`no signal was sent: process ${pid} ${why}; asking over HTTPS`)}\n`);
  return undefined;
}

async function trySignal(pid: string, config: string): Promise<string | undefined> {
  const { stdout } = await runToEnd("ps", ["-ww", "-o", "args=", "-p", pid]);
  const args = stdout.trim();
  if (args === "") return "is not there any more";
  if (!isSignerOf(args, config)) return `is not the signer of ${quoteText(config)}`;
  const { success, stderr } = await runToEnd("kill", ["-HUP", pid]);
  return success ? undefined : `can't be signalled: ${stderr.trim()}`;
}

/**
 * The start of each service's command line: `signer/main.js` from source and from a package, else a program of that name.
 * A name that is only a word of another program does not match.
 */
const SERVICE =
  /(?<=^|[ /])(?<name>signer|control[-_]plane|broker|gateway|mcp-broker(?:-http)?)(?:\/main\.[jt]s|(?<! \k<name>))(?: serve-(?:http|mcp-http|mcp))? --?config[ =]/g;

/**
 * Whether a command line, its words joined by spaces, is that of a signer with this config. A line that can be read as
 * two services is rejected: a value of an option may look like a service.
 */
export function isSignerOf(args: string, config: string): boolean {
  const [service, ...more] = args.matchAll(SERVICE);
  if (service?.groups?.["name"] !== "signer" || more.length > 0) return false;
  const told = args.slice(service.index + service[0].length);
  return told === config || told.startsWith(`${config} -`);
}

export const VERSION_COMMAND = command({
  name: "version",
  summary: "Print the version.",
  takes: { "--verbose": "with runtime, platform and source revision" },
  help: `
Examples:
  broker-ctl version
  broker-ctl version --verbose
`,
  uses: () => [],
  run: ({ verbose = false }) =>
    Promise.resolve({
      json: { version: VERSION, deno: Deno.version.deno },
      lines: describeVersion({ verbose }).split("\n"),
    }),
});

const PUBKEY = command({
  name: "pubkey",
  summary: "Print the public key of an envelope_key, as hosts keep it.",
  takes: {
    "--seed <file>": required("the file that envelope_key names, exactly 32 bytes"),
    "--signers": "as a line of OpenSSH's allowed signers, for envelope v3 and v2",
  },
  help: `
Examples:
  broker-ctl envelope pubkey --seed pki/envelope.seed --signers
      the line for /etc/gateway/envelope_signers of hosts with envelope v3 or v2; a shim of before v3 rejects it:
      replace that shim first (broker-ctl host install-shim)
  broker-ctl envelope pubkey --seed pki/envelope.seed
      the line for /etc/gateway/envelope.pub of hosts with envelope v1

To change the key: add the line of the new one to the hosts, let envelope_key name the new seed, broker-ctl reload, and
take the line of the old one away no sooner than five minutes later.
`,
  uses: () => [],
  run: async ({ seed, signers = false }, { workingFolder }) => {
    const key = createEnvelopeKey(await readOperatorFile(resolve(workingFolder, seed), "the seed"));
    const json = { public_key: envelopePublicKeyText(key), envelope_signers: envelopeSignersLine(key) };
    return { json, lines: [signers ? json.envelope_signers : json.public_key] };
  },
});

export const ENVELOPE: CommandGroup = {
  name: "envelope",
  summary: "The key that signs commands for sealed hosts.",
  commands: [PUBKEY],
};

const FRONTEND = "serve-http";

export const PERMISSIONS = command({
  name: "permissions",
  summary: "Show what a service's process may do, as flags for deno run and deno compile.",
  takes: {
    "<service>": oneOf(SERVICES, "whose"),
    "--frontend <frontend>": {
      ...oneOf(BROKER_FRONTENDS, "how agents reach the broker"),
      fallback: FRONTEND,
    },
  },
  help: `
Examples:
  broker-ctl permissions signer --config /etc/gateway/signer.json
  broker-ctl permissions control-plane --config /etc/gateway/control-plane.json
  broker-ctl permissions broker --config /etc/gateway/config.json --frontend serve-mcp

  eval deno run "$(broker-ctl permissions signer --config signer.json)" signer/main.ts --config signer.json

The same config always gives the same flags: the files it names, its listeners, what it connects to, and
nothing else. A broker with a signer may connect to any address unless its config sets "networks" or
"api_servers".
`,
  run: async ({ service, frontend = FRONTEND, config }, { workingFolder }) => {
    const configPath = config ?? TARGETS[service].config;
    const { set, flags } = await hintMissingConfig(() =>
      derivePermissions({ service, configPath, workingFolder, frontend })
    );
    return {
      json: { service, flags, permissions: formatJson(set) },
      lines: [flags.map(quoteFlag).join(" ")],
    };
  },
});

function quoteFlag(flag: string): string {
  const [name = "", ...value] = flag.split("=");
  return value.length === 0 ? name : `${name}=${shellQuote(value.join("="))}`;
}
