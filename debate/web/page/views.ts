import type * as z from "@zod/zod";
import type { ANSWERS } from "../answers.ts";
import type { TimedEvent } from "./summary.ts";

export type Answer<Name extends keyof typeof ANSWERS> = z.infer<(typeof ANSWERS)[Name]>;

export type SettingsView = Answer<"settings">;
export type AccessView = Answer<"authStatus">;

/** The published schema of a record leaves these open. */
interface Amounts {
  readonly token_totals?:
    | { readonly total?: { readonly total_tokens?: number; readonly estimated?: boolean } }
    | null;
  readonly cost_estimate?: { readonly total_usd?: number | null } | null;
}

export type ListedRun = Omit<Answer<"runs">["runs"][number], keyof Amounts> & Amounts;

export interface RunsView {
  readonly runs: readonly ListedRun[];
}

/** A run. Its record can be edited or come from another version, so every field can be missing. */
export type RunView =
  & Partial<Omit<ListedRun, "run_id">>
  & { readonly run_id: string; readonly events?: readonly TimedEvent[] };
