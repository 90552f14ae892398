/**
 * A diagnostic tool as the agents see it.
 *
 * @module
 */

export interface ToolResult {
  /** `false` for every failure, including those that the tool itself explains: refused, unreachable, timed out. */
  readonly ok: boolean;
  /** For the model and the operator; cut to 4000 characters and redacted by the tool. */
  readonly text: string;
}

export interface ToolContext {
  /** Aborted when the run is cancelled or the engine's own bound on tools has passed; stops whatever the tool started. */
  readonly signal: AbortSignal;
  readonly runId: string;
}

/** A tool that an agent may call. */
export interface Tool {
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** JSON schema of the arguments, an object. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /**
   * Runs the tool. An expected failure is a result with `ok: false`; an exception is a defect, shown to the
   * model only as such.
   *
   * @param args a JSON object that the model wrote, not checked yet
   */
  run(args: unknown, context: ToolContext): Promise<ToolResult>;
}
