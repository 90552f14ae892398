/**
 * A diagnostic tool as the agents see it.
 *
 * @module
 */

/** What a tool gives. */
export interface ToolResult {
  /** `false` for every failure, also for one that the tool itself explains: refused, unreachable, timed out. */
  readonly ok: boolean;
  /** For the model and the operator; cut to 4000 characters and redacted by the tool. */
  readonly text: string;
}

/** The call that a tool serves. */
export interface ToolContext {
  /** Aborted when the run is cancelled or the engine's own bound on tools has passed; stops whatever the tool started. */
  readonly signal: AbortSignal;
  readonly runId: string;
}

/** Something that an agent may call. */
export interface Tool {
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** JSON schema of the arguments, an object. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /**
   * Runs it. What it expects to go wrong is a result with `ok: false`; what it throws is a defect, shown to the
   * model only as such.
   *
   * @param args a JSON object of the model's making, not checked yet
   */
  run(args: unknown, context: ToolContext): Promise<ToolResult>;
}
