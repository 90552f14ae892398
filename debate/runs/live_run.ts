import { type Clock, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { shortenText } from "@gateway/shared/text";
import { redactValue } from "../context/redact_context.ts";
import { isObject } from "../engine/graph/text.ts";
import { callKey } from "../engine/agents/debate.ts";
import type { ApprovalAnswer, ApprovalCall, EditedApproval } from "../engine/ports.ts";
import { NO_INPUT, type OperatorInput } from "../engine/graph/hypotheses.ts";
import type { CollectedContext } from "../context/collect.ts";
import { type RunEvent, type ToolArgs, UNRECORDED_EVENTS } from "../engine/events.ts";
import type { Settings } from "../settings/config.ts";
import { EventLog } from "./event_log.ts";
import { recordOf } from "./fold.ts";
import type { Journal } from "./store.ts";
import type { RunHeader, StoredEvent } from "./record.ts";

export interface RunOptions {
  readonly requireApproval: boolean;
  readonly pauseBetweenRounds: boolean;
}

interface LiveRunSetup {
  readonly header: RunHeader;
  readonly context: CollectedContext;
  readonly options: RunOptions;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly settings: Pick<
    Settings,
    "APPROVAL_REQUIRED_TOOLS" | "APPROVAL_TIMEOUT_SECONDS" | "COMMENT_TIMEOUT_SECONDS"
  >;
  /** Masks secrets in the operator's texts. */
  readonly redact: (text: string) => string;
  readonly operator: OperatorPlace | undefined;
}

/**
 * The place of the operator of an unattended run: `absent` can approve nothing; `called` gets a message for each
 * request. By default, the operator watches the page.
 */
export type OperatorPlace = "absent" | "called";

const MAX_REASON = 500;

/** An operator's answer. `…_for_run` also applies to later calls of the tool with the same arguments. */
type OperatorAnswer = "approved" | "rejected" | "approved_for_run" | "rejected_for_run";

interface Answer {
  readonly resolution: "approved" | "rejected" | "timeout";
  readonly forRun?: true;
  readonly args?: ToolArgs;
}

type Call = Pick<ApprovalCall, "call_id" | "tool_name" | "args">;

interface WaitingCall {
  readonly key: string;
  readonly need: string | undefined;
  readonly call: Call;
  readonly resolve: (answer: Answer) => void;
}

export class LiveRun {
  readonly header: RunHeader;
  readonly context: CollectedContext;
  readonly log: EventLog;
  readonly #setup: LiveRunSetup;
  readonly events: StoredEvent[] = [];
  readonly #approvals = new Map<string, WaitingCall>();
  /** The calls that were approved for the whole run, by their key. */
  readonly #allowed = new Map<string, Call>();
  readonly #cancel = new AbortController();
  #answerPause: ((word: OperatorInput) => void) | undefined;
  #options: RunOptions;
  /** A called operator did not answer, so the run does not wait for them again. */
  #isUnanswered = false;

  constructor(setup: LiveRunSetup) {
    this.#setup = setup;
    this.header = setup.header;
    this.context = setup.context;
    this.log = new EventLog(setup.clock);
    this.#options = setup.options;
  }

  get options(): RunOptions {
    return this.#options;
  }

  get signal(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Sends an event to subscribers and, unless it is ephemeral, to the record and its journal. */
  emit(event: RunEvent): void {
    if (this.log.isEnded) return;
    const { type } = event;
    if (UNRECORDED_EVENTS.has(type)) return this.log.append({ type, json: JSON.stringify(event) });
    const stored = this.stamp(event);
    const json = JSON.stringify(stored);
    this.events.push(stored);
    this.#setup.journal.add(json);
    this.log.append({ type, json });
  }

  stamp(event: RunEvent): StoredEvent {
    return { ...event, timestamp: new Date(this.#setup.clock.now()).toISOString() };
  }

  conclude(events: readonly StoredEvent[]): void {
    this.events.push(...events);
    for (const event of events) this.log.append({ type: event.type, json: JSON.stringify(event) });
    this.log.end();
  }

  settle(): Promise<void> {
    return this.#setup.journal.settle();
  }

  toRecord() {
    return recordOf(this.header, this.context, this.events);
  }

  /** Requests the operator's approval of a tool call if it is required. */
  async approve(call: ApprovalCall): Promise<ApprovalAnswer | EditedApproval> {
    const { call_id, tool_name, args, agent_node, agent_role, need, reason } = call;
    const { settings, clock, redact, operator } = this.#setup;
    const ms = settings.APPROVAL_TIMEOUT_SECONDS * 1000;
    const isGuarded = call.needsApproval || settings.APPROVAL_REQUIRED_TOOLS.includes(tool_name);
    if (operator === "absent") return isGuarded ? "rejected" : "auto";
    if (!this.#options.requireApproval || (!isGuarded && need === undefined)) return "auto";
    const key = callKey(tool_name, args);
    if (this.#allowed.has(key)) {
      const resolution = "approved";
      this.emit({ type: "tool_approval_resolved", call_id, approved: true, resolution, remembered: true });
      return resolution;
    }
    if (this.#isUnanswered) {
      this.emit({ type: "tool_approval_resolved", call_id, approved: false, resolution: "timeout" });
      return "timeout";
    }
    const { signal } = call;
    const answer = Promise.withResolvers<Answer>();
    this.#approvals.set(call_id, { key, need, call: { call_id, tool_name, args }, resolve: answer.resolve });
    const said = shortenText(redact(reason.trim()).toWellFormed(), MAX_REASON);
    this.emit({
      ...{ type: "tool_approval_request", call_id, tool_name, args, agent_node, agent_role },
      ...(need !== undefined && { need }),
      ...(said !== "" && { reason: said }),
    });
    const { resolution, args: edited, forRun } = await within({ clock, ms, signal }, answer.promise)
      .catch((): Answer => ({ resolution: signal.aborted ? "rejected" : "timeout" }));
    this.#approvals.delete(call_id);
    this.#isUnanswered = resolution === "timeout" && operator === "called";
    const approved = resolution === "approved";
    const remembers = forRun === undefined ? {} : { for_run: forRun };
    const told = { type: "tool_approval_resolved", call_id, approved, resolution, ...remembers } as const;
    if (!approved || edited === undefined) {
      this.emit(told);
      return resolution;
    }
    const masked = redactValue(edited, redact);
    const shown = isObject(masked) ? masked : {};
    this.emit({ ...told, args: shown });
    return { answer: "approved", args: edited, shown };
  }

  /**
   * Forwards the operator's decision on a tool call. The first decision counts, but an approval for the whole run can
   * be revoked.
   *
   * @param edited the approved arguments, if they differ from the requested ones; for this call only
   */
  decide(callId: string, answer: OperatorAnswer, edited?: ToolArgs): void {
    const waiting = this.#approvals.get(callId);
    if (waiting === undefined) {
      const isRevocation = answer === "rejected_for_run";
      // The ID of a revocation is the ID of the call whose approval was for the whole run.
      if (isRevocation && this.#revoke(({ call_id }) => call_id === callId)) return;
      const problem = isRevocation
        ? "Cannot revoke the approval: no such tool call is approved for the whole run"
        : "Cannot decide the tool call: it was decided, has timed out, or is unknown";
      throw new AppError("not_found", problem);
    }
    const { key, call, resolve } = waiting;
    this.#approvals.delete(callId);
    if (answer === "rejected" || answer === "rejected_for_run") return resolve({ resolution: "rejected" });
    const isEdited = edited !== undefined && callKey(call.tool_name, edited) !== key;
    if (isEdited) return resolve({ resolution: "approved", args: edited });
    if (answer !== "approved_for_run") return resolve({ resolution: "approved" });
    this.#allowed.set(key, call);
    resolve({ resolution: "approved", forRun: true });
  }

  /** Revokes approvals for the whole run. Returns whether there were any. */
  #revoke(isMeant: (call: { readonly call_id: string }) => boolean): boolean {
    const meant = [...this.#allowed].filter(([, call]) => isMeant(call));
    for (const [key, call] of meant) {
      this.#allowed.delete(key);
      this.emit({ type: "tool_approval_revoked", ...call });
    }
    return meant.length > 0;
  }

  get pendingApprovals(): number {
    return this.#approvals.size;
  }

  get waitsFor(): "approval" | "comment" | undefined {
    if (this.#approvals.size > 0) return "approval";
    return this.#answerPause === undefined ? undefined : "comment";
  }

  async waitForComment(): Promise<OperatorInput> {
    // The operator may have turned the pause off in the meantime.
    if (!this.#options.pauseBetweenRounds) return NO_INPUT;
    const { clock, settings } = this.#setup;
    const ms = settings.COMMENT_TIMEOUT_SECONDS * 1000;
    const answer = Promise.withResolvers<OperatorInput>();
    this.#answerPause = answer.resolve;
    const word = await within({ clock, ms, signal: this.signal }, answer.promise).catch(() => NO_INPUT);
    this.#answerPause = undefined;
    return word;
  }

  comment(word: OperatorInput): void {
    const answer = this.#answerPause;
    if (answer === undefined) {
      throw new AppError(
        "conflict",
        "Cannot add the comment: the run accepts comments only in a pause between rounds",
      );
    }
    this.#answerPause = undefined;
    answer(word);
  }

  /**
   * Changes options. If an option is turned off, calls and pauses that wait because of it continue, but a call that a
   * tool itself does not run without an approval is rejected. If approval is turned on, approvals for the whole run are
   * revoked.
   */
  change(options: Partial<RunOptions>): RunOptions {
    this.#options = { ...this.#options, ...options };
    if (options.requireApproval) this.#revoke(() => true);
    if (!this.#options.requireApproval) {
      for (const [callId, { need }] of [...this.#approvals]) {
        this.decide(callId, need === undefined ? "approved" : "rejected");
      }
    }
    if (!this.#options.pauseBetweenRounds && this.#answerPause !== undefined) this.comment(NO_INPUT);
    return this.#options;
  }

  cancel(): void {
    this.#cancel.abort(new AppError("canceled", "The operator stopped the run"));
  }
}
