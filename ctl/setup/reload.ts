import { resolve } from "node:path";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { type Call, command, type CommandGroup, oneOf, required } from "../kit/command.ts";
import { readOperatorFile, readOperatorText } from "../kit/files.ts";
import { invalid } from "../kit/output.ts";
import { REMOTE_HELP, usesSigner } from "../kit/remote.ts";
import { lintNewPatterns } from "../kit/lint_warnings.ts";
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

Requests a reload over HTTPS (POST /v1/reload) and reports whether the signer loaded its config. An invalid config
changes nothing. Without HTTPS: systemctl reload gateway-signer, or --pid-file, which sends SIGHUP to a signer on this
machine that was started with this --config; the result is in the signer's log. If the process is another one, the
reload is requested over HTTPS. The signer does not write a PID file; its start command can:
  sh -c 'echo $$ > signer.pid; exec ctl/start.sh signer --config gateway/signer.json'
With auto_reload_seconds in its config, the signer reloads a changed file automatically.

With the signer's config in --config, reload warns about new patterns as policy lint does.
${REMOTE_HELP}`;

export const RELOAD = command({
  name: "reload",
  summary: "Reload the signer's config.",
  takes: { "--pid-file <file>": "send SIGHUP to the signer with the PID in this file" },
  help: EXAMPLES,
  uses: ({ pidFile }) => pidFile === undefined ? usesSigner() : [...usesSigner(), "programs"],
  run: async (given, call) => {
    const signalled = given.pidFile === undefined
      ? undefined
      : await signal(given.pidFile, given.config, call);
    if (signalled !== undefined) return signalled;
    const { hosts, status, new_patterns } = await askReload(call);
    const { findings, lines } = await lintNewPatterns(new_patterns, given.config, call.workingFolder);
    return {
      json: { hosts, status, new_patterns: new_patterns.length, findings },
      lines: [`signer reloaded via HTTP (hosts: ${hosts})`, ...lines],
    };
  },
});

/** A positive number: `kill` would signal all processes for -1, and its own group for 0. */
const PID = /^[1-9]\d{0,9}$/;

/**
 * Sends SIGHUP to the process in a PID file if it is the signer of this config. After the signer ends, the number in the
 * file can belong to another process.
 *
 * @returns undefined if no signal was sent
 */
async function signal(pidFile: string, config: string | undefined, { workingFolder, terminal }: Call) {
  const path = resolve(workingFolder, pidFile);
  const configPath = resolve(workingFolder, config ?? "signer.json");
  const pid = (await readOperatorText(path, "pid file")).trim();
  if (!PID.test(pid)) {
    throw invalid(`Cannot use ${quoteText(path)}: expected a process ID`);
  }
  const args = (await runToEnd("ps", ["-ww", "-o", "args=", "-p", pid])).stdout.trim();
  let why = args === "" ? "does not exist" : `is not the signer of ${quoteText(configPath)}`;
  if (isSignerOf(args, configPath)) {
    const { success, stderr } = await runToEnd("kill", ["-HUP", pid]);
    const lines = [`SIGHUP sent to signer (PID ${pid})`];
    if (success) return { json: { signal: "SIGHUP", pid: Number(pid) }, lines };
    why = `cannot be signaled: ${stderr.trim()}`;
  }
  terminal.err(`${visibleText(`no signal sent: process ${pid} ${why}; requesting the reload over HTTPS`)}\n`);
  return undefined;
}

/**
 * The start of each service's command line: `signer/main.js` from source and from a package, or a program of that name. A
 * name that is only an argument of another program does not match.
 */
const SERVICE =
  /(?<=^|[ /])(?<name>signer|control[-_]plane|broker|gateway|mcp-broker(?:-http)?)(?:\/main\.[jt]s|(?<! \k<name>))(?: serve-(?:http|mcp-http|mcp))? --?config[ =]/g;

/**
 * Checks if a command line, its words joined by spaces, belongs to a signer with this config. A line that matches two
 * services is rejected, because the value of an option may look like a service.
 */
export function isSignerOf(args: string, config: string): boolean {
  const [service, ...more] = args.matchAll(SERVICE);
  if (service?.groups?.["name"] !== "signer" || more.length > 0) return false;
  const rest = args.slice(service.index + service[0].length);
  return rest === config || rest.startsWith(`${config} -`);
}

export const VERSION_COMMAND = command({
  name: "version",
  summary: "Print the version.",
  takes: { "--verbose": "include runtime, platform and source revision" },
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
  summary: "Print the public key of an envelope key.",
  takes: {
    "--seed <file>": required("file of envelope_key, exactly 32 bytes"),
    "--signers": "print an OpenSSH allowed signers line, for envelope v3 and v2",
  },
  help: `
Examples:
  broker-ctl envelope pubkey --seed pki/envelope.seed --signers
      print the line for /etc/gateway/envelope_signers (envelope v3 and v2); shims older than v3 reject it, so replace
      them first (broker-ctl host install-shim)
  broker-ctl envelope pubkey --seed pki/envelope.seed
      print the line for /etc/gateway/envelope.pub (envelope v1)

To change the key: add the new line to the hosts, set envelope_key to the new seed, run broker-ctl reload, and remove
the previous line from the hosts at least five minutes later.
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
  summary: "Manage the key that signs commands for sealed hosts.",
  commands: [PUBKEY],
};

const FRONTEND = "serve-http";

export const PERMISSIONS = command({
  name: "permissions",
  summary: "Show a service's Deno permissions as flags.",
  takes: {
    "<service>": oneOf(SERVICES, "service"),
    "--frontend <frontend>": { ...oneOf(BROKER_FRONTENDS, "frontend of the broker"), fallback: FRONTEND },
  },
  help: `
Examples:
  broker-ctl permissions signer --config /etc/gateway/signer.json
  broker-ctl permissions control-plane --config /etc/gateway/control-plane.json
  broker-ctl permissions broker --config /etc/gateway/config.json --frontend serve-mcp

  eval deno run "$(broker-ctl permissions signer --config signer.json)" signer/main.ts --config signer.json

The flags permit only the files, listeners and outgoing connections in the config. A broker that uses a signer may
connect to any address, unless its config sets "networks" or "api_servers".
`,
  // The config of a context is not that of each service.
  uses: ({ config }) => config === undefined ? [] : ["config"],
  run: async ({ service, frontend = FRONTEND, config }, { workingFolder }) => {
    const configPath = config ?? TARGETS[service].config;
    const { set, flags } = await derivePermissions({ service, configPath, workingFolder, frontend });
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
