/**
 * What the modules of the page are checked with; no browser gets it. A script and not TypeScript, because the server, which
 * has these files as texts, is checked without the types of a browser.
 *
 * @module
 */
/** @import { ToolArgs, ToolCallEvent, ToolCallStartedEvent } from "../../engine/events.ts" */
/** @import { Summary, TimedEvent } from "./summary.js" */

/**
 * A field of a form.
 *
 * @typedef {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} Field
 */

/**
 * A form with these fields by name, and others.
 *
 * @template {Readonly<Record<string, Field>>} Fields
 * @typedef {HTMLFormElement & {
 *   readonly elements: HTMLFormControlsCollection & Fields;
 * }} Form
 */

/**
 * The form that starts a run.
 *
 * @typedef {Form<{
 *   readonly topic: HTMLTextAreaElement;
 *   readonly template: HTMLSelectElement;
 *   readonly language: HTMLSelectElement;
 *   readonly mode: HTMLSelectElement;
 *   readonly require_approval: HTMLInputElement;
 * }>} StartForm
 */

/**
 * The form for a comment between rounds.
 *
 * @typedef {Form<{
 *   readonly comment: HTMLTextAreaElement;
 *   readonly added: HTMLTextAreaElement;
 * }>} CommentForm
 */

/**
 * The elements of `index.html` that have an id; a test holds one to the other.
 *
 * @typedef {{
 *   "access": HTMLDetailsElement;
 *   "access-status": HTMLDListElement;
 *   "allowed": HTMLElement;
 *   "allowed-list": HTMLUListElement;
 *   "allowed-title": HTMLHeadingElement;
 *   "answer": HTMLElement;
 *   "asked": HTMLElement;
 *   "asked-list": HTMLUListElement;
 *   "asked-title": HTMLHeadingElement;
 *   "board": HTMLElement;
 *   "board-list": HTMLUListElement;
 *   "board-title": HTMLHeadingElement;
 *   "cancel": HTMLButtonElement;
 *   "comment-form": CommentForm;
 *   "comment-title": HTMLHeadingElement;
 *   "compare": HTMLElement;
 *   "compare-sides": HTMLDivElement;
 *   "compare-title": HTMLHeadingElement;
 *   "delete": HTMLButtonElement;
 *   "help": HTMLDialogElement;
 *   "help-list": HTMLDListElement;
 *   "help-on": HTMLInputElement;
 *   "help-open": HTMLButtonElement;
 *   "help-title": HTMLHeadingElement;
 *   "language": HTMLSelectElement;
 *   "login": HTMLButtonElement;
 *   "login-state": HTMLParagraphElement;
 *   "main": HTMLElement;
 *   "map": HTMLDetailsElement;
 *   "map-details": HTMLDivElement;
 *   "map-moment": HTMLInputElement;
 *   "map-picture": HTMLDivElement;
 *   "map-play": HTMLButtonElement;
 *   "map-round": HTMLSelectElement;
 *   "map-sides": HTMLDivElement;
 *   "map-when": HTMLOutputElement;
 *   "models-note": HTMLParagraphElement;
 *   "news": HTMLParagraphElement;
 *   "notify-note": HTMLParagraphElement;
 *   "opt-approval": HTMLInputElement;
 *   "opt-notify": HTMLInputElement;
 *   "opt-pause": HTMLInputElement;
 *   "options": HTMLFieldSetElement;
 *   "problem": HTMLParagraphElement;
 *   "refresh-models": HTMLButtonElement;
 *   "report": HTMLAnchorElement;
 *   "resume-form": Form<{ readonly require_approval: HTMLInputElement }>;
 *   "roles": HTMLDivElement;
 *   "run": HTMLElement;
 *   "run-asked": HTMLButtonElement;
 *   "run-bar": HTMLDivElement;
 *   "run-facts": HTMLDListElement;
 *   "run-note": HTMLSpanElement;
 *   "run-status": HTMLSpanElement;
 *   "run-sure": HTMLElement;
 *   "run-title": HTMLHeadingElement;
 *   "run-topic": HTMLPreElement;
 *   "runs": HTMLElement;
 *   "runs-compare": HTMLButtonElement;
 *   "runs-empty": HTMLParagraphElement;
 *   "runs-filter": HTMLSelectElement;
 *   "runs-import": HTMLInputElement;
 *   "runs-list": HTMLTableSectionElement;
 *   "runs-model": HTMLSelectElement;
 *   "runs-more": HTMLButtonElement;
 *   "runs-none": HTMLParagraphElement;
 *   "runs-note": HTMLParagraphElement;
 *   "runs-search": HTMLInputElement;
 *   "runs-table": HTMLTableElement;
 *   "runs-title": HTMLHeadingElement;
 *   "save-html": HTMLAnchorElement;
 *   "save-json": HTMLAnchorElement;
 *   "save-md": HTMLAnchorElement;
 *   "setup": HTMLElement;
 *   "setup-login": HTMLSpanElement;
 *   "setup-names": HTMLSpanElement;
 *   "setup-title": HTMLHeadingElement;
 *   "skip": HTMLAnchorElement;
 *   "start": HTMLElement;
 *   "start-form": StartForm;
 *   "start-title": HTMLHeadingElement;
 *   "steer": HTMLDetailsElement;
 *   "steer-list": HTMLUListElement;
 *   "template-check": HTMLButtonElement;
 *   "template-file": HTMLInputElement;
 *   "template-from": HTMLSelectElement;
 *   "template-note": HTMLParagraphElement;
 *   "template-preview": HTMLDivElement;
 *   "template-problem": HTMLParagraphElement;
 *   "template-save": HTMLButtonElement;
 *   "template-text": HTMLTextAreaElement;
 *   "templates": HTMLElement;
 *   "templates-title": HTMLHeadingElement;
 *   "theme": HTMLSelectElement;
 *   "thread": HTMLOListElement;
 *   "thread-title": HTMLHeadingElement;
 *   "title-form": Form<{ readonly title: HTMLInputElement }>;
 *   "try": HTMLButtonElement;
 * }} Elements
 */

/**
 * What an element may be made with: its own properties, and attributes by name.
 *
 * @template {keyof HTMLElementTagNameMap} Name
 * @typedef {& Partial<Omit<HTMLElementTagNameMap[Name], "attributes">>
 *   & { readonly attributes?: Readonly<Record<string, string>> }} Properties
 */

/**
 * What an element may hold.
 *
 * @typedef {string | Node} Content
 */

/**
 * A button or a form whose action runs once at a time.
 *
 * @typedef {HTMLElement & { disabled?: boolean }} Control
 */

/**
 * What the page shows of a run; it may have been made by hand, or by another version: anything may be missing.
 * `duration_seconds`: with one decimal.
 *
 * @typedef {{
 *   readonly run_id: string;
 *   readonly title?: string | null;
 *   readonly topic?: string | null;
 *   readonly timestamp?: string | null;
 *   readonly status?: string | null;
 *   readonly models?: Readonly<Record<string, string>> | null;
 *   readonly template?: string | null;
 *   readonly language?: string | null;
 *   readonly parent_run_id?: string | null;
 *   readonly duration_seconds?: number | null;
 *   readonly finished_at?: string | null;
 *   readonly token_totals?: {
 *     readonly total?: { readonly total_tokens?: number; readonly estimated?: boolean };
 *   } | null;
 *   readonly cost_estimate?: { readonly total_usd?: number | null } | null;
 *   readonly imported?: boolean;
 *   readonly imported_at?: string | null;
 * }} RunFields
 */

/**
 * A run as the server has it.
 *
 * @typedef {RunFields & {
 *   readonly events?: readonly TimedEvent[];
 * }} RunView
 */

/**
 * A run in the list. `waits_for`: of a running one: what its operator is asked for.
 *
 * @typedef {RunFields & {
 *   readonly conclusion: {
 *     readonly cause: string;
 *     readonly confidence: number | null;
 *     readonly outcome: string | null;
 *   } | null;
 *   readonly waits_for?: string | null;
 * }} ListedRun
 */

/**
 * What the server's settings say, as far as the page needs it.
 *
 * @typedef {{
 *   readonly prompt_template: string;
 *   readonly prompt_language: string;
 *   readonly mode: string;
 *   readonly tool_approval_required: boolean;
 *   readonly approval_timeout_seconds: number;
 *   readonly comment_timeout_seconds: number;
 *   readonly max_upload_bytes: number;
 *   readonly builtin_incident: { readonly topic: string; readonly model: string };
 *   readonly [name: string]: unknown;
 * }} SettingsView
 */

/**
 * Whether providers can be asked.
 *
 * @typedef {{
 *   readonly github_models_configured: boolean;
 *   readonly copilot_configured: boolean;
 *   readonly copilot_session_valid: boolean;
 *   readonly last_error?: string | null;
 *   readonly missing_settings: readonly string[];
 * }} AccessView
 */

/**
 * A login that is under way. `interval`: in seconds.
 *
 * @typedef {{
 *   readonly status: string;
 *   readonly error?: string;
 *   readonly verification_uri: string;
 *   readonly user_code: string;
 *   readonly device_code: string;
 *   readonly interval: number;
 * }} LoginView
 */

/**
 * A template in the list.
 *
 * @typedef {{
 *   readonly name: string;
 *   readonly language: string;
 *   readonly description?: string;
 *   readonly source: string;
 * }} TemplateView
 */

/**
 * A model in the list. `price`: dollars per million tokens.
 *
 * @typedef {{
 *   readonly id: string;
 *   readonly name: string;
 *   readonly provider: string;
 *   readonly price?: { readonly input: number; readonly output: number } | null;
 * }} ModelView
 */

/**
 * A tool that runs.
 *
 * @typedef {{
 *   readonly event: ToolCallStartedEvent;
 *   readonly element: HTMLElement;
 *   timer: number | undefined;
 * }} RunningTool
 */

/**
 * A call in the conversation.
 *
 * @typedef {{
 *   readonly event: ToolCallStartedEvent | ToolCallEvent | EndedCall;
 *   readonly element: HTMLElement;
 * }} ShownCall
 */

/**
 * A call of which nobody knows what became.
 *
 * @typedef {Omit<ToolCallStartedEvent, "type"> & { readonly error: true }} EndedCall
 */

/**
 * Calls in a row of one agent. `fold`: where they are folded; `undefined` for a single one.
 *
 * @typedef {{
 *   readonly role: string;
 *   readonly calls: Map<string, ShownCall>;
 *   fold: { readonly summary: HTMLElement; readonly list: HTMLElement } | undefined;
 * }} Group
 */

/**
 * What an agent is writing.
 *
 * @typedef {{
 *   readonly element: HTMLElement;
 *   readonly body: HTMLElement;
 *   text: string;
 *   timer: number | undefined;
 *   tookMs: number;
 * }} Live
 */

/**
 * The run that is shown. `queue`: events that have come and are not shown yet. `needsLogin`: a model of the run needs
 * a login that is missing. `known`: how many events there were at first, which may answer what they ask for. `group`:
 * the tool calls in a row that are being added to, and that of each call. `add`: adds to the conversation what ends a
 * group of tool calls.
 *
 * @typedef {{
 *   readonly id: string;
 *   source: EventSource | undefined;
 *   live: Live | undefined;
 *   lastId: string;
 *   known: number;
 *   queue: string[];
 *   draining: number | undefined;
 *   readonly approvals: Map<string, HTMLElement>;
 *   readonly tools: Map<string, RunningTool>;
 *   round: number;
 *   maxRounds: number | undefined;
 *   isOver: boolean;
 *   status: string | undefined;
 *   title: string;
 *   record: RunView | undefined;
 *   settings: SettingsView | undefined;
 *   summary: Summary;
 *   needsLogin: boolean;
 *   frame: number | undefined;
 *   timer: number | undefined;
 *   group: Group | undefined;
 *   readonly groups: Map<string, Group>;
 *   readonly add: (element: HTMLElement) => void;
 * }} Run
 */

/**
 * What an operator answers to a call that waits.
 *
 * @typedef {{
 *   readonly approved: boolean;
 *   readonly for_run?: boolean;
 *   readonly args?: ToolArgs;
 * }} Answer
 */

export {};
