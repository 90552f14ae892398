import type { JsonClient } from "@gateway/shared/http";
import type { PermissionSet } from "@gateway/shared/permissions";
import { formatPublicKey, parseCertificate } from "@gateway/shared/ssh";
import { describeCertificate } from "../stage/describe_certificate.ts";
import { signResponse } from "@gateway/shared/wire";
import { SSHD_PROBLEM } from "../ssh_target/sshd_problem.ts";
import { HOST, post, Stage } from "../stage/stage.ts";
import { Agent } from "./agent.ts";
import { showAudit } from "./audit_step.ts";
import { approvalPolicy, createApprovalCommands, createApprovalSteps } from "./approval_steps.ts";
import { findKrlProblem, KrlHost } from "../stage/krl_host.ts";
import type { Step, StepResult } from "./reporter.ts";
import { showStolen } from "./stolen_step.ts";

const DENIED = "cat /etc/shadow";
const SMUGGLED = "uptime; id";

/**
 * Returns the steps of the demo, in order, for a new installation in an empty directory. `resources` stops everything
 * that the steps start. The signal cancels their waits.
 */
export function createSteps(
  dir: string,
  resources: AsyncDisposableStack,
  signal: AbortSignal,
): readonly Step[] {
  let stage: Stage;
  let agent: Agent;
  let http: JsonClient;
  let approver: JsonClient;
  const commands = createApprovalCommands(dir);
  return [
    {
      name: "init",
      title: "broker-ctl init creates keys, certificates and configs; an SSH host trusts the new CA",
      async run() {
        stage = resources.use(
          await Stage.create({
            dir,
            controlPlane: true,
            revokedKeys: findKrlProblem() === "",
            ...approvalPolicy(commands),
          }),
        );
        if (findKrlProblem() === "") await KrlHost.enrol(stage);
        return showSetUp(stage);
      },
    },
    {
      name: "start",
      title: "Signer, control plane and broker start, each under the permissions that its config requires",
      async run() {
        const signer = await stage.startSigner(signal);
        // Before the first login, because sshd rejects every login without a list.
        if (findKrlProblem() === "") resources.use(await KrlHost.start(stage));
        const controlPlane = await stage.startControlPlane(signal);
        const broker = await stage.startBroker(signal);
        http = await stage.brokerClient();
        approver = await stage.controlPlaneClient("approver");
        return showPermissions(stage, {
          signer: signer.command.permissions,
          control_plane: controlPlane.command.permissions,
          broker: broker.command.permissions,
        });
      },
    },
    {
      name: "hosts",
      title: "The agent (MCP over stdio) lists the hosts",
      async run() {
        agent = await Agent.start(await stage.mcpCommand(), signal);
        resources.defer(() => agent.close());
        const { isError, text } = await agent.callTool("ssh_list_servers", {});
        return { ok: !isError && text.startsWith(`${HOST} (`), shows: text.trim(), facts: { hosts: [HOST] } };
      },
    },
    {
      name: "run",
      title: "The agent runs `uptime`: a key in memory, a certificate for this command, the output",
      async run() {
        const { isError, text } = await agent.execute(HOST, "uptime");
        const [, exit, serial] = text.match(/\[exit=(\d+) serial=(\d+)\]$/) ?? [];
        return {
          ok: !isError && exit === "0" && text.includes("load average"),
          shows: text.trim(),
          facts: { exit_code: Number(exit), serial },
        };
      },
    },
    {
      name: "run_http",
      title: "The agent runs `uptime` over HTTP, without MCP: POST /v1/ssh_run with a client certificate",
      async run() {
        const { status, text } = await runOverHttp(http, "uptime");
        return {
          ok: status === 200 && text.includes("load average"),
          shows: `${status} ${text.trim()}`,
          facts: { status },
        };
      },
    },
    {
      name: "denied",
      title: `The agent requests \`${DENIED}\`: no rule allows it, so the signer issues no certificate`,
      run: () => showRefusal(agent, DENIED, "allowlist:no-match"),
    },
    {
      name: "smuggling",
      title: `The agent hides a second command behind an allowed one: \`${SMUGGLED}\``,
      async run() {
        const refused = await showRefusal(agent, SMUGGLED, "allowlist:no-match");
        const substituted = await showRefusal(agent, "uptime $(id)", "shell-parse:");
        return {
          ok: refused.ok && substituted.ok,
          shows: `${refused.shows}\nand with a substitution, \`uptime $(id)\`:\n${substituted.shows}`,
        };
      },
    },
    {
      name: "certificate",
      title: "A certificate for one command, as ssh-keygen -L shows it",
      run: () => showCertificate(stage),
    },
    ...createApprovalSteps({ commands, scene: () => ({ stage, agent, http, approver }), signal }),
    {
      name: "stolen",
      title: "An attacker steals a session's key and certificate; after a freeze, sshd rejects them",
      run: () => showStolen(stage),
    },
    {
      name: "audit",
      title: "broker-ctl audit verify: all logs are complete and unchanged",
      async run() {
        // Stops the agent's broker, which completes its log.
        await agent.close();
        return await showAudit(stage, ["signer", "control_plane", "broker", "mcp"]);
      },
    },
  ];
}

function showSetUp({ init, target }: Stage): StepResult {
  const server = target.kind === "openssh"
    ? "the system's sshd"
    : `an embedded SSH server, because ${SSHD_PROBLEM}`;
  return {
    ok: true,
    shows: [
      `the keys, and the configs of signer, control plane and brokers, are in ${init.folder}`,
      "agent-local sends requests to broker-local, and that to the control plane and the signer",
      "approver-local decides on approvals, operator-local administers the signer",
      `host "${HOST}" is ${server}, on 127.0.0.1:${target.port}`,
      "it accepts certificates of the CA, and no password or other key",
    ].join("\n"),
    facts: { target: target.kind, folder: init.folder, ...(SSHD_PROBLEM !== "" && { reason: SSHD_PROBLEM }) },
  };
}

function showPermissions({ init }: Stage, sets: Readonly<Record<string, PermissionSet>>): StepResult {
  const services = Object.entries(sets);
  const readers = services.filter(([, set]) => set.read?.includes(init.ssh_ca)).map(([name]) => name);
  return {
    ok: readers.join() === "signer",
    shows: [
      ...services.map(([name, { read = [], net }]) =>
        `${name.replace("_", " ")}: reads ${read.length} files, ${readers.includes(name) ? "also" : "not"} ` +
        `the CA key; writes its log directory; may use ${net?.length} addresses`
      ),
      "no service may start a process, load native code or read the environment",
    ].join("\n"),
    facts: Object.fromEntries(services.map(([name, set]) => [`${name}_permissions`, set])),
  };
}

async function runOverHttp(client: JsonClient, command: string) {
  return await post(client, "/v1/ssh_run", { host: HOST, command });
}

/** Checks that the command is denied, both when it is run and in a dry run. */
async function showRefusal(agent: Agent, command: string, rule: string): Promise<StepResult> {
  const run = await agent.execute(HOST, command);
  const preview = await agent.callTool("ssh_execute", { server: HOST, command, dry_run: true });
  const matched = preview.text.match(/^rule: (.*)$/m)?.[1] ?? "";
  return {
    ok: run.isError && run.text.includes("signing rejected (403)") && matched.startsWith(rule) &&
      preview.text.startsWith("[dry-run] DENIED"),
    shows: `${run.text}\nmatched rule: ${matched}`,
    facts: { command, rule: matched },
  };
}

/** Requests a certificate as the broker, because the broker shows its certificates to no other program. */
async function showCertificate(stage: Stage): Promise<StepResult> {
  const { publicKey } = await crypto.subtle.generateKey("Ed25519", false, [
    "sign",
    "verify",
  ]) as CryptoKeyPair;
  const raw = new Uint8Array(await crypto.subtle.exportKey("raw", publicKey));
  const controlPlane = await stage.controlPlaneClient("broker");
  const response = await post(controlPlane, "/v1/sign", {
    host: HOST,
    role: "target",
    purpose: "oneshot",
    command: "uptime",
    public_key: formatPublicKey("ssh-ed25519", publicKeyBlob(raw)),
    end_user: "demo",
    end_user_groups: null,
  });
  const { certificate: line = "" } = signResponse.parse(response.body);
  const certificate = parseCertificate(line);
  return {
    ok: certificate.criticalOptions["force-command"] === "uptime" && certificate.extensions.length === 0 &&
      certificate.validBefore - certificate.validAfter <= 330,
    shows: "limited to one command, one principal and five minutes; no shell, no forwarding, no terminal",
    exhibit: describeCertificate(certificate).trimEnd(),
    facts: { serial: String(certificate.serial) },
  };
}

function publicKeyBlob(raw: Uint8Array): Uint8Array {
  const algorithm = new TextEncoder().encode("ssh-ed25519");
  return Uint8Array.from([0, 0, 0, algorithm.length, ...algorithm, 0, 0, 0, raw.length, ...raw]);
}
