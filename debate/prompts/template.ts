/**
 * A prompt template: the roles that the agents are given.
 *
 * @module
 */

/** A prompt template, one name in one language. */
export interface PromptTemplate {
  readonly name: string;
  /** As in the file name: `en`, `es`, … */
  readonly language: string;
  readonly version: number;
  readonly description: string;
  readonly source: "builtin" | "custom";
  /** System message of the diagnostic agent, also for its rebuttal. */
  readonly diagnosticSystem: string;
  readonly skepticSystem: string;
  readonly moderatorSystem: string;
}
