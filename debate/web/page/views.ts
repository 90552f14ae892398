import type { TimedEvent } from "./summary.ts";

/**
 * The shown fields of a run. Every field can be missing, because a record can be edited or come from another version.
 */
interface RunFields {
  readonly run_id: string;
  readonly title?: string | null;
  readonly topic?: string | null;
  readonly timestamp?: string | null;
  readonly status?: string | null;
  readonly models?: Readonly<Record<string, string>> | null;
  readonly template?: string | null;
  readonly language?: string | null;
  readonly parent_run_id?: string | null;
  /** With one decimal. */
  readonly duration_seconds?: number | null;
  readonly finished_at?: string | null;
  readonly token_totals?:
    | { readonly total?: { readonly total_tokens?: number; readonly estimated?: boolean } }
    | null;
  readonly cost_estimate?: { readonly total_usd?: number | null } | null;
  readonly imported?: boolean;
  readonly imported_at?: string | null;
}

/** A run from the server. */
export interface RunView extends RunFields {
  readonly events?: readonly TimedEvent[];
}

/** A run in the list. */
export interface ListedRun extends RunFields {
  readonly conclusion?:
    | { readonly cause: string; readonly confidence: number | null; readonly outcome: string | null }
    | null;
  /** The reason of a failure. */
  readonly problem?: string | null;
  /** The pending request of a running one. */
  readonly waits_for?: string | null;
}

/** An open alert. `status` and `outcome` are those of its run. */
export interface AlertView {
  readonly id: string;
  readonly title: string;
  readonly severity: string;
  readonly since: string;
  readonly count: number;
  readonly run_id: string | null;
  readonly status: string | null;
  readonly outcome: string | null;
}

/** The settings of the server that the page needs. */
export interface SettingsView {
  readonly prompt_template: string;
  readonly prompt_language: string;
  readonly mode: string;
  readonly tool_approval_required: boolean;
  readonly sandbox_problem: string | null;
  readonly approval_timeout_seconds: number;
  readonly comment_timeout_seconds: number;
  readonly max_upload_bytes: number;
  readonly builtin_incident: { readonly topic: string; readonly model: string };
  readonly providers?: readonly ProviderView[];
  readonly tools?: readonly ToolView[];
  /** Model and reasoning effort of each role, such as `skeptic_model`. */
  readonly [name: string]: unknown;
}

/** A configured provider of models. */
interface ProviderView {
  readonly name: string;
  readonly protocol: string;
  readonly configured: boolean;
  /** The variables that are not set. */
  readonly missing: readonly string[];
  /** A user can log in instead of setting a token. */
  readonly login: boolean;
}

/** A tool of the agents. */
interface ToolView {
  readonly name: string;
  readonly description: string;
  readonly available: boolean;
  /** The reason why it is off. */
  readonly why?: string | null;
  readonly needs_approval: boolean;
}

/** The login state of the providers. */
export interface AccessView {
  readonly github_models_configured: boolean;
  readonly copilot_configured: boolean;
  readonly copilot_session_valid: boolean;
  readonly last_error?: string | null;
  readonly missing_settings: readonly string[];
}

/** A login in progress. */
export interface LoginView {
  readonly status: string;
  readonly error?: string;
  readonly verification_uri: string;
  readonly user_code: string;
  readonly device_code: string;
  /** In seconds. */
  readonly interval: number;
}

/** A template in the list. */
export interface TemplateView {
  readonly name: string;
  readonly language: string;
  readonly description?: string;
  readonly source: string;
}

/** A model in the list. */
export interface ModelView {
  readonly id: string;
  readonly name: string;
  readonly provider: string;
  /** Dollars per million tokens. */
  readonly price?: { readonly input: number; readonly output: number } | null;
}
