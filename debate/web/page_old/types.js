/**
 * Types for the modules of the page. Browsers never load this file. It is a script, because the server imports
 * the files of the page as text and is checked without browser types.
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
 * A form with these named fields and others.
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
 * The elements of `index.html` with an ID. A test compares both.
 * @typedef {{
 *   "access": HTMLDetailsElement;
 *   "access-status": HTMLDListElement;
 *   "alerts": HTMLElement;
 *   "alerts-list": HTMLUListElement;
 *   "alerts-title": HTMLHeadingElement;
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
 *   "run-limit": HTMLSpanElement;
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
 *   "sandbox-note": HTMLParagraphElement;
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
 * Properties and attributes of a new element.
 * @template {keyof HTMLElementTagNameMap} Name
 * @typedef {& Partial<Omit<HTMLElementTagNameMap[Name], "attributes">>
 *   & { readonly attributes?: Readonly<Record<string, string>> }} Properties
 */

/**
 * Content of an element.
 * @typedef {string | Node} Content
 */

/**
 * A button or a form that runs one action at a time.
 * @typedef {HTMLElement & { disabled?: boolean }} Control
 */

/**
 * The shown fields of a run. Every field can be missing, because a record can be edited or come from another
 * version. `duration_seconds` has one decimal.
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
 * A run from the server.
 * @typedef {RunFields & {
 *   readonly events?: readonly TimedEvent[];
 * }} RunView
 */

/**
 * A run in the list. `waits_for` is the pending request of a running one.
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
 * An open alert. `status` and `outcome` are those of its run.
 * @typedef {{
 *   readonly id: string;
 *   readonly title: string;
 *   readonly severity: string;
 *   readonly since: string;
 *   readonly count: number;
 *   readonly run_id: string | null;
 *   readonly status: string | null;
 *   readonly outcome: string | null;
 * }} AlertView
 */

/**
 * The settings of the server that the page needs.
 * @typedef {{
 *   readonly prompt_template: string;
 *   readonly prompt_language: string;
 *   readonly mode: string;
 *   readonly tool_approval_required: boolean;
 *   readonly sandbox_problem: string | null;
 *   readonly approval_timeout_seconds: number;
 *   readonly comment_timeout_seconds: number;
 *   readonly max_upload_bytes: number;
 *   readonly builtin_incident: { readonly topic: string; readonly model: string };
 *   readonly [name: string]: unknown;
 * }} SettingsView
 */

/**
 * The login state of the providers.
 * @typedef {{
 *   readonly github_models_configured: boolean;
 *   readonly copilot_configured: boolean;
 *   readonly copilot_session_valid: boolean;
 *   readonly last_error?: string | null;
 *   readonly missing_settings: readonly string[];
 * }} AccessView
 */

/**
 * A login in progress. `interval` is in seconds.
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
 * A running tool.
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
 * A call without a known result.
 * @typedef {Omit<ToolCallStartedEvent, "type"> & { readonly error: true }} EndedCall
 */

/**
 * Consecutive calls of one agent. `fold` is the collapsed list, or `undefined` for a single call.
 * @typedef {{
 *   readonly role: string;
 *   readonly calls: Map<string, ShownCall>;
 *   fold: { readonly summary: HTMLElement; readonly list: HTMLElement } | undefined;
 * }} Group
 */

/**
 * Streamed text of an agent.
 * @typedef {{
 *   readonly element: HTMLElement;
 *   readonly body: HTMLElement;
 *   text: string;
 *   timer: number | undefined;
 *   tookMs: number;
 * }} Live
 */

/**
 * The shown run. `queue` has the received events that are not shown yet. `needsLogin`: a model of the run
 * needs a missing login. `known` is the number of events at the start, which can contain decisions on their
 * requests. `group` is the open group of tool calls, and `groups` has the group of each call. `add` adds an
 * element that ends a group of tool calls.
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
 * The decision of an operator on a pending call.
 * @typedef {{
 *   readonly approved: boolean;
 *   readonly for_run?: boolean;
 *   readonly args?: ToolArgs;
 * }} Answer
 */

export {};
