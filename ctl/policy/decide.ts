import {
  type CommandVerdict,
  type CompiledHost,
  type CompiledPolicy,
  decideCommand,
  decideSsh,
  mayUseHost,
  parseCommand,
  type SshDecision,
  type SshIntent,
} from "@gateway/shared/policy";

/** What the rules say of one simple command, enforcement left aside. */
export interface StepVerdict {
  /** Its words, joined by blanks: what the patterns are matched against. */
  readonly command: string;
  readonly verdict: CommandVerdict;
}

/** A whole intent, and the commands in its text. */
export interface Explanation {
  readonly decision: SshDecision;
  /** Empty when no rule is asked: a host without rules, the opening of a session. */
  readonly steps: readonly StepVerdict[];
}

/** An intent of which the caller may be left open. */
export interface OpenIntent extends Omit<SshIntent, "caller"> {
  /** Absent: any caller that may use the host. */
  readonly caller?: string;
}

/** Decides as the signer does, in the order of its gates; grants, waivers and freezes are not looked at. */
export function explainIntent(policy: CompiledPolicy, host: CompiledHost, intent: OpenIntent): Explanation {
  const { caller } = intent;
  const steps = listSteps(host, intent.command);
  if (caller !== undefined && mayUseHost(policy, caller, host.name) !== "ok") {
    return { decision: denyByGroups(host), steps };
  }
  const [allowed = ""] = host.allowedCallers;
  return { decision: decideSsh(policy, { ...intent, caller: caller ?? allowed }), steps };
}

/** The simple commands in a text, each with what the rules of a host say of it. */
export function listSteps({ commands }: CompiledHost, command: string): readonly StepVerdict[] {
  if (!commands.restricts || command === "") return [];
  const parsed = commands.parses ? parseCommand(command) : undefined;
  if (parsed === undefined || parsed.kind === "refused") {
    return [{ command, verdict: decideCommand(commands, command) }];
  }
  // Each has been parsed: its text now is what the patterns see, and no shell's any more.
  const rules = { ...commands, parses: false };
  return parsed.commands.map((words) => {
    const text = words.join(" ");
    return { command: text, verdict: decideCommand(rules, text) };
  });
}

function denyByGroups(host: CompiledHost): SshDecision {
  return { kind: "denied", reason: "host not authorised", matchedRule: "", enforcement: "", host };
}
