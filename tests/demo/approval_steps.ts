import type { ApprovalRecord } from "@gateway/shared/wire";
import { poll } from "../stage/poll.ts";
import { HOST, post, type StageOptions } from "../stage/stage.ts";
import type { ToolAnswer } from "./agent.ts";
import { showFreeze } from "./freeze_step.ts";
import type { Step, StepResult } from "./reporter.ts";
import { brokerCtl, findApproval, listApprovals, oneLine, type Scene } from "./scene.ts";

export interface ApprovalCommands {
  /** A directory that exists only after `change` has run. */
  readonly proof: string;
  readonly change: string;
  readonly look: string;
}

interface ApprovalStepOptions {
  readonly commands: ApprovalCommands;
  /** Returns the scene, which earlier steps create. */
  readonly scene: () => Scene;
  readonly signal: AbortSignal;
}

/** Limit from the decision to the agent's answer. It includes signing, connecting and the command. */
const ANSWER_WITHIN_MS = 5_000;

/** Two commands in the demo's directory: one creates a directory, one lists it. */
export function createApprovalCommands(dir: string): ApprovalCommands {
  const proof = `${dir}/maintenance`;
  return { proof, change: `mkdir -v ${proof}`, look: `ls -d ${proof}` };
}

/** A policy that requires approval of the commands, and a broker that is listed as an approver by mistake. */
export function approvalPolicy(
  { change, look }: ApprovalCommands,
): Pick<StageOptions, "signer" | "controlPlaneConfig"> {
  const patterns = [change, look].map((command) => `^${escapePattern(command)}$`);
  const policy = { mode: "allowlist", allow: patterns, require_approval: patterns };
  return {
    signer: [
      { path: ["command_policies", "maintenance"], value: policy },
      { path: ["group_command_policies", "_default"], value: ["starter", "maintenance"] },
    ],
    controlPlaneConfig: [{ path: ["approval", "callers"], value: ["approver-local", "broker-local"] }],
  };
}

/** The steps about approvals, in order. */
export function createApprovalSteps({ commands, scene, signal }: ApprovalStepOptions): readonly Step[] {
  const { change, look } = commands;
  let asked: ApprovalRecord;
  let answer: Promise<ToolAnswer>;
  return [
    {
      name: "approval_asked",
      title: `The agent requests \`${change}\`: this needs an approval, so nothing runs`,
      async run() {
        ({ asked, answer } = await ask(scene(), change, signal));
        const list = await brokerCtl(scene().stage, "approval", "list", "--status", "pending");
        return {
          ok: list.ok && list.text.includes(asked.id.slice(0, 8)) && !await exists(commands.proof),
          shows: `broker-ctl approval list --status pending\n${list.text}`,
          facts: { approval_id: asked.id, rule: asked.rule },
        };
      },
    },
    {
      name: "self_approval",
      title: "The broker, listed as an approver by mistake, tries to approve its own request",
      async run() {
        const { stage, approver } = scene();
        const { cert, key } = stage.init.broker;
        const tried = await brokerCtl(stage, "approval", "allow", asked.id, "--cert", cert, "--key", key);
        const { status } = await findApproval(approver, asked.id);
        const refused = tried.text.includes("(HTTP 403): self-approval not allowed");
        return {
          ok: !tried.ok && refused && status === "pending" && !await exists(commands.proof),
          shows: `${tried.text.split("\n")[0]}\nthe request is still ${status}`,
        };
      },
    },
    {
      name: "approval",
      title: "The approver approves the request: the waiting agent gets its output",
      run: () => showApproval({ ...scene(), commands, asked, answer }),
    },
    {
      name: "approval_learned",
      title: `The approver approves \`${look}\` and, with --learn, repeats for ten minutes`,
      run: () => showLearning({ ...scene(), commands, signal }),
    },
    {
      name: "frozen",
      title: "The operator freezes the broker's CN: all services reject it until the freeze is lifted",
      run: () => showFreeze({ ...scene(), learned: look }),
    },
  ];
}

/** Sends the agent's request and returns the pending approval. */
async function ask({ agent, approver }: Scene, command: string, signal: AbortSignal) {
  const answer = agent.execute(HOST, command);
  // A later step awaits the answer. Until then, a rejection must not end the demo.
  answer.catch(() => {});
  let asked: ApprovalRecord | undefined;
  await poll(async () => {
    asked = (await listApprovals(approver)).find((record) =>
      record.status === "pending" && record.command === command
    );
    return asked !== undefined;
  }, { what: "the request to wait for approval", signal });
  if (asked === undefined) throw new Error("no request waits for approval");
  return { asked, answer };
}

async function showApproval(
  { approver, commands, asked, answer }: Scene & {
    readonly commands: ApprovalCommands;
    readonly asked: ApprovalRecord;
    readonly answer: Promise<ToolAnswer>;
  },
): Promise<StepResult> {
  const before = await exists(commands.proof);
  const decidedAt = performance.now();
  const { status } = await post(approver, `/v1/approvals/${asked.id}`, { approve: true });
  const { isError, text } = await answer;
  const ms = Math.round(performance.now() - decidedAt);
  const { decided_by } = await findApproval(approver, asked.id);
  return {
    ok: status === 200 && !isError && /\[exit=0 serial=\d+\]$/.test(text) && text.includes(commands.proof) &&
      decided_by === "approver-local" && !before && await exists(commands.proof) && ms < ANSWER_WITHIN_MS,
    shows: `${text.trim()}\napproved by ${decided_by}; ${ms} ms from the decision to the agent's answer`,
    facts: { approved_by: decided_by, answer_ms: ms },
  };
}

async function showLearning(
  { commands, signal, ...scene }: Scene & {
    readonly commands: ApprovalCommands;
    readonly signal: AbortSignal;
  },
): Promise<StepResult> {
  const { stage, agent, approver } = scene;
  const { asked, answer } = await ask(scene, commands.look, signal);
  const allowed = await brokerCtl(stage, "approval", "allow", asked.id, "--learn", "--ttl", "10m");
  const first = await answer;
  const second = await agent.execute(HOST, commands.look);
  const requests = (await listApprovals(approver)).filter(({ command }) => command === commands.look);
  const grants = await brokerCtl(stage, "policy", "grants");
  const ran = ({ isError, text }: ToolAnswer) => !isError && text.includes(commands.proof);
  return {
    ok: allowed.ok && ran(first) && ran(second) && requests.length === 1 &&
      grants.text.includes("waive-approval["),
    shows: [
      allowed.text,
      `first:  ${oneLine(first.text)}`,
      `second: ${oneLine(second.text)}, without an approval`,
    ].join("\n"),
    facts: { requests: requests.length },
  };
}

/** Returns a pattern that matches only this text. */
function escapePattern(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
