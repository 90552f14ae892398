import {
  type CommandVerdict,
  type CompiledHost,
  type CompiledPolicy,
  compilePolicy,
  decideCommand,
  decideSsh,
  mayUseHost,
  parseCommand,
  type SshDecision,
  type SshIntent,
} from "@gateway/shared/policy";
import { badConfig } from "../kit/output.ts";

/** @throws {AppError} `invalid_config` with the problems of the policy */
export function compile(config: Parameters<typeof compilePolicy>[0]): CompiledPolicy {
  const compiled = compilePolicy(config);
  if (compiled.kind === "ok") return compiled.policy;
  throw badConfig(`Cannot use signer config: ${compiled.problems.join("\n  ")}`);
}

/** The verdict of the rules on one simple command, without enforcement. */
interface StepVerdict {
  /** Its words, joined by spaces: the text that patterns are matched against. */
  readonly command: string;
  readonly verdict: CommandVerdict;
}

export interface Explanation {
  readonly decision: SshDecision;
  /** Empty for a host without rules, and for the opening of a session. */
  readonly steps: readonly StepVerdict[];
}

export interface OpenIntent extends Omit<SshIntent, "caller"> {
  /** Absent: any caller that may use the host. */
  readonly caller?: string;
}

/** Decides as the signer does, in the order of its gates, but without grants, waivers and freezes. */
export function explainIntent(policy: CompiledPolicy, host: CompiledHost, intent: OpenIntent): Explanation {
  const { caller } = intent;
  const steps = listSteps(host, intent.command);
  if (caller !== undefined && mayUseHost(policy, caller, host.name) !== "ok") {
    return { decision: denyByGroups(host), steps };
  }
  const [allowed = ""] = host.allowedCallers;
  return { decision: decideSsh(policy, { ...intent, caller: caller ?? allowed }), steps };
}

/** The simple commands in a text, each with the verdict of a host's rules. */
export function listSteps({ commands }: CompiledHost, command: string): readonly StepVerdict[] {
  if (!commands.restricts || command === "") return [];
  const parsed = commands.parses ? parseCommand(command) : undefined;
  if (parsed === undefined || parsed.kind === "refused") {
    return [{ command, verdict: decideCommand(commands, command) }];
  }
  // Each command has been parsed already: patterns match its words, and no shell reads them again.
  const rules = { ...commands, parses: false };
  return parsed.commands.map((words) => {
    const text = words.join(" ");
    return { command: text, verdict: decideCommand(rules, text) };
  });
}

function denyByGroups(host: CompiledHost): SshDecision {
  return { kind: "denied", reason: "host not authorised", matchedRule: "", enforcement: "", host };
}
