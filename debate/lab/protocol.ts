import { sorted } from "../engine/agents/tool_cache.ts";
import { allFirstPrompts } from "../engine/agents/prompt.ts";
import type { PromptTemplate } from "../prompts/parse_template.ts";
import { contextOf, type Incident } from "./incident.ts";
import type { Arm } from "./arms.ts";

/** What a benchmark will do. */
export interface Protocol {
  readonly arms: readonly Arm[];
  readonly runs: number;
  readonly token_budget: number;
  readonly tool_budget: number;
  readonly max_rounds: number;
  readonly confidence_threshold: number;
  readonly early_out: { readonly enabled: boolean; readonly threshold: number };
  readonly model_timeout_seconds: number;
  readonly template: string;
  readonly language: string;
  /** Of what the agents are sent: the text of the template, and what the program adds to it. */
  readonly prompts_sha256: string;
  readonly models: { readonly diagnostic: string; readonly skeptic: string; readonly moderator: string };
}

/** The SHA-256 of the incidents, in hexadecimal: their order and the order of keys do not matter. */
export function hashIncidents(incidents: readonly Incident[]): Promise<string> {
  return hash(incidents.toSorted((a, b) => a.id < b.id ? -1 : 1));
}

/** The SHA-256 of incidents and protocol, to be published before the first run. */
export async function hashProtocol(protocol: Protocol, incidents: readonly Incident[]): Promise<string> {
  const forms = Object.fromEntries(incidents.map((each) => [each.id, contextOf(each)]));
  return await hash({ protocol, incidents: await hashIncidents(incidents), forms });
}

export async function withPrompts(
  protocol: Omit<Protocol, "prompts_sha256">,
  template: PromptTemplate,
): Promise<Protocol> {
  const prompts = allFirstPrompts({
    topic: "",
    context: "",
    maxRounds: protocol.max_rounds,
    confidenceThreshold: protocol.confidence_threshold,
    earlyOut: protocol.early_out,
    compressHistory: true,
    language: protocol.language,
  }, template);
  return { ...protocol, prompts_sha256: await hash(prompts) };
}

async function hash(value: unknown): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(sorted(value)));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** {@linkcode hashIncidents} of the built-in incidents. A new one says that results are not comparable with older ones. */
export const REGISTERED = "bfc2419dab8d0f480dd46fe26761911817a2aff66370ca0260ff9b4a94897175";
