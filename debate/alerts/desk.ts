/** Open alerts: each has one run at a time and one answer. The file is written before a sender gets its response. */
import { type Clock, within } from "@gateway/shared/clock";
import { AppError, errorName } from "@gateway/shared/errors";
import { shortenText } from "@gateway/shared/text";
import * as z from "@zod/zod";
import { dropPartialWord, oneLine, parseJson } from "../engine/graph/text.ts";
import { reasonOf } from "../models/exchange.ts";
import type { LiveRun } from "../runs/live_run.ts";
import type { RunManager } from "../runs/manager.ts";
import type { RunDirectory } from "../runs/run_directory.ts";
import type { RunStore } from "../runs/store.ts";
import type { Settings } from "../settings/config.ts";
import { approvalLines, readApprovals } from "./approval.ts";
import { answerLines, chatBody } from "./message.ts";
import { type Notice, SOURCES } from "./payload.ts";

const alertSchema = z.strictObject({
  id: z.string().regex(/^[0-9a-f]{32}$/),
  key: z.string(),
  source: z.enum(SOURCES),
  title: z.string(),
  severity: z.string(),
  since: z.string(),
  details: z.string(),
  received_at: z.number(),
  last_at: z.number(),
  /** The notices that fired, with the first one. */
  count: z.int(),
  resolved_at: z.number().nullable(),
  run_id: z.string().nullable(),
  /** The runs that were started, or could not be started. */
  starts: z.int(),
  answer: z.enum(["waiting", "sent", "failed", "off"]),
  /** The failed deliveries. */
  tries: z.int(),
  /** The time of the next start or delivery. */
  next_at: z.number(),
});

export type Alert = Readonly<z.infer<typeof alertSchema>>;

const FILE = "alerts.json";
const fileSchema = z.strictObject({ alerts: z.array(alertSchema) });

const MAX_STORED = 100;
const MAX_DETAILS = 8000;
const MAX_TITLE = 300;
/** An interrupted run, or one that cannot start, is started again until this number. */
const MAX_STARTS = 3;
/** With the pauses below: for about 75 minutes. */
const MAX_TRIES = 12;
const START_PAUSE_MS = 60_000;
const FIRST_PAUSE_MS = 5000;
const LONGEST_PAUSE_MS = 600_000;
const SEND_MS = 10_000;
/** A resolved alert that fires again within this time joins its previous run. */
const REOPEN_MS = 3_600_000;
/** An alert without a new notice for this time is no longer listed, because not all senders report the end. */
const FORGET_MS = 24 * 3_600_000;

type Finished = Parameters<typeof answerLines>[1];

/** The state of a message to the chat, as in {@linkcode Alert}. */
type Delivery = Pick<Alert, "answer" | "tries" | "next_at">;

const FIRST_TRY: Delivery = { answer: "waiting", tries: 0, next_at: 0 };

/** The answer of an alert for which no run could start. */
const NO_RUN = {
  status: "error",
  conclusion: null,
  hypotheses: [],
  events: [{ type: "error", message: "no run could start; see the log of the server" }],
} as const;

interface DeskPorts {
  readonly directory: Pick<RunDirectory, "read" | "write">;
  readonly settings: Settings;
  readonly manager: Pick<RunManager, "find">;
  readonly store: Pick<RunStore, "read">;
  readonly clock: Clock;
  readonly newId: (bytes: number) => string;
  readonly redact: (text: string) => string;
  /** Starts a run, and returns its ID. */
  readonly start: (alert: Alert) => Promise<string>;
  readonly fetch: typeof globalThis.fetch;
  /** The URL of the page of a run, or of the start page. */
  readonly urlOf: (runId: string | null) => string;
  readonly log: (message: string) => void;
  readonly stopping: AbortSignal;
}

/** Reads the stored alerts. @throws {AppError} `invalid_config` if they are damaged */
export async function readAlerts(directory: DeskPorts["directory"]): Promise<readonly Alert[]> {
  const bytes = await directory.read(FILE);
  if (bytes === undefined) return [];
  const { data } = fileSchema.safeParse(parseJson(new TextDecoder().decode(bytes)));
  if (data !== undefined) return data.alerts;
  const text = `Cannot read ${FILE} in DATA_DIR: it is damaged, or of another version`;
  throw new AppError("invalid_config", `${text}\nfix: move the file away; its open alerts are then lost`);
}

export class AlertDesk {
  readonly #ports: DeskPorts;
  readonly #alerts = new Map<string, Alert>();
  /** The messages about approvals, by call and state. They need no store, because a crash ends the calls. */
  readonly #told = new WeakMap<LiveRun, Map<string, Delivery>>();
  #saving: Promise<void> = Promise.resolve();
  #working: Promise<void> | undefined;

  constructor(ports: DeskPorts, stored: readonly Alert[]) {
    this.#ports = ports;
    for (const alert of stored) this.#alerts.set(alert.key, alert);
  }

  /** The open alerts, newest first. */
  list(): readonly Alert[] {
    return [...this.#alerts.values()].filter(({ resolved_at }) => resolved_at === null)
      .toSorted((a, b) => b.received_at - a.received_at);
  }

  /**
   * Stores a notice. When the returned promise resolves, a crash no longer loses it.
   *
   * @returns the alert, or `undefined` for the end of an unknown alert
   */
  async receive(notice: Notice): Promise<Alert | undefined> {
    const { key, isFiring, source } = notice;
    const { redact, clock, newId } = this.#ports;
    const now = clock.now();
    const known = this.#alerts.get(key);
    if (!isFiring && known === undefined) return undefined;
    if (known === undefined && this.#alerts.size >= MAX_STORED) {
      const [old] = [...this.#alerts.values()].filter(({ answer }) => answer !== "waiting")
        .toSorted((a, b) => a.last_at - b.last_at);
      if (old === undefined) {
        const text =
          `Cannot store the alert: ${MAX_STORED} alerts wait for their answers, which is the limit`;
        // Alertmanager repeats after 5xx only.
        throw new AppError("canceled", text, { retryAfterSeconds: 60 });
      }
      this.#alerts.delete(old.key);
    }
    const details = redact(notice.details);
    const told = {
      title: shortenText(oneLine(redact(notice.title)), MAX_TITLE),
      severity: shortenText(oneLine(redact(notice.severity)), 40),
      details: details.length <= MAX_DETAILS ? details : dropPartialWord(details.slice(0, MAX_DETAILS)),
    };
    const fresh: Alert = {
      ...{ ...told, id: newId(16), key, source, since: notice.since, received_at: now, last_at: now },
      ...{ count: 0, resolved_at: null, run_id: null, starts: 0, answer: "waiting", tries: 0, next_at: now },
    };
    // An alert that ended before its run, or whose run could not start, gets another chance.
    const before: Alert = known?.run_id === null
      ? { ...known, answer: "waiting", starts: 0, tries: 0 }
      : known ?? fresh;
    this.#alerts.set(
      key,
      isFiring
        ? { ...before, ...told, last_at: now, count: before.count + 1, resolved_at: null }
        : { ...before, last_at: now, resolved_at: before.resolved_at ?? now },
    );
    await this.#save();
    return this.#alerts.get(key) ?? before;
  }

  /** Starts runs and sends answers that are due. Calls during this work join it. Never rejects. */
  work(): Promise<void> {
    this.#working ??= this.#workOnce()
      .catch(this.#report)
      .finally(() => this.#working = undefined);
    return this.#working;
  }

  readonly #report = (error: unknown) => this.#ports.log(`cannot process the alerts: ${errorName(error)}`);

  /** Waits for the end of the work in progress. */
  async idle(): Promise<void> {
    await this.#working;
  }

  async #workOnce(): Promise<void> {
    const { stopping, manager, settings, clock } = this.#ports;
    const sending: Promise<void>[] = [];
    const isLive = ({ run_id }: Alert) => run_id !== null && manager.find(run_id) !== undefined;
    const isDue = (alert: Alert | undefined) =>
      alert?.answer === "waiting" && alert.next_at <= clock.now() && !isLive(alert);
    for (const key of [...this.#alerts.keys()].filter((key) => isDue(this.#alerts.get(key)))) {
      const record = await this.#record(this.#alerts.get(key)?.run_id ?? null);
      // A notice may have changed the alert during a wait.
      const alert = this.#alerts.get(key);
      if (stopping.aborted) break;
      if (alert === undefined) continue;
      const mayStart = alert.run_id === null ? alert.resolved_at === null : record?.status === "interrupted";
      if (!mayStart || alert.starts >= MAX_STARTS) {
        sending.push(this.#answer(alert, record).catch(this.#report));
      } else if ([...this.#alerts.values()].filter(isLive).length < settings.ALERT_MAX_RUNS) {
        await this.#start(alert);
      }
    }
    for (const alert of this.#alerts.values()) {
      const run = alert.run_id === null ? undefined : manager.find(alert.run_id);
      if (run !== undefined && !stopping.aborted) sending.push(this.#tell(alert, run).catch(this.#report));
    }
    await Promise.all(sending);
    const now = clock.now();
    for (const { key, answer, resolved_at, last_at } of this.#alerts.values()) {
      const isOld = last_at < now - FORGET_MS || resolved_at !== null && resolved_at < now - REOPEN_MS;
      if (isOld && answer !== "waiting") this.#alerts.delete(key);
    }
  }

  async #start(alert: Alert): Promise<void> {
    const { start, clock, log, stopping } = this.#ports;
    const { key, id, starts } = alert;
    const begun = await start(alert).catch((error: unknown) => ({ error }));
    if (typeof begun === "string") return await this.#change(key, { run_id: begun, starts: starts + 1 });
    if (stopping.aborted) return;
    const { error } = begun;
    const isKnown = error instanceof AppError;
    log(`cannot start a run for alert ${id}: ${isKnown ? error.message : errorName(error)}`);
    const isBusy = isKnown && error.code === "rate_limited";
    await this.#change(key, { starts: isBusy ? starts : starts + 1, next_at: clock.now() + START_PAUSE_MS });
  }

  async #answer(alert: Alert, found: Finished | undefined): Promise<void> {
    const { key, run_id, resolved_at } = alert;
    const { settings, redact } = this.#ports;
    const record = run_id === null && resolved_at === null ? NO_RUN : found;
    // The alert ended before its run, or the operator deleted the run.
    if (settings.ALERT_ANSWER_URL === "" || record === undefined) {
      return await this.#change(key, { answer: "off" });
    }
    const delivery = await this.#deliver("the answer", alert, answerLines(alert, record, redact), alert);
    // A notice during the delivery gives an alert without a run another chance.
    const isOutdated = run_id === null && this.#alerts.get(key)?.count !== alert.count;
    if (delivery !== undefined && !isOutdated) await this.#change(key, delivery);
  }

  /** Sends the requests for approval of a run, and the decisions on requests that were sent. */
  async #tell(alert: Alert, run: LiveRun): Promise<void> {
    const { settings: { ALERT_ANSWER_URL, APPROVAL_TIMEOUT_SECONDS }, clock, redact } = this.#ports;
    if (ALERT_ANSWER_URL === "") return;
    const told = this.#told.get(run) ?? new Map<string, Delivery>();
    this.#told.set(run, told);
    for (const approval of readApprovals(run.events, APPROVAL_TIMEOUT_SECONDS * 1000)) {
      const { call_id, state, tool_name, expires_at } = approval;
      const key = `${call_id} ${state}`;
      const before = told.get(key) ?? FIRST_TRY;
      const isNews = state === "waiting" || told.get(`${call_id} waiting`)?.answer === "sent";
      if (!isNews || before.answer !== "waiting" || before.next_at > clock.now()) continue;
      const lines = approvalLines(alert, approval, redact);
      const facts = { approval: { call_id, tool_name, expires_at, state } };
      const delivery = await this.#deliver(`approval ${call_id} (${state})`, alert, lines, before, facts);
      if (delivery !== undefined) told.set(key, delivery);
    }
  }

  /** Tries to send a message. Returns `undefined` if the server stops. */
  async #deliver(
    what: string,
    alert: Alert,
    lines: readonly string[],
    { tries }: Delivery,
    more: object = {},
  ) {
    const { settings: { ALERT_ANSWER_URL, ALERT_ANSWER_FORMAT }, urlOf, clock, log, stopping } = this.#ports;
    const { id, run_id, title, severity, source, since, resolved_at } = alert;
    const about = { alert_id: id, run_id, source, since, is_open: resolved_at === null };
    const facts = { title, severity, url: urlOf(run_id), ...about, ...more };
    const problem = await this.#send(ALERT_ANSWER_URL, chatBody(ALERT_ANSWER_FORMAT, lines, facts));
    if (problem === undefined) return { answer: "sent", tries, next_at: clock.now() } as const;
    if (stopping.aborted) return undefined;
    log(`cannot send ${what} of alert ${id}: ${problem} (try ${tries + 1} of ${MAX_TRIES})`);
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** tries, LONGEST_PAUSE_MS);
    const answer = tries + 1 >= MAX_TRIES ? "failed" : "waiting";
    return { answer, tries: tries + 1, next_at: clock.now() + pause } as const;
  }

  async #record(runId: string | null): Promise<Finished | undefined> {
    // A damaged record is like a deleted one.
    const { store } = this.#ports;
    return runId === null ? undefined : (await store.read(runId).catch(() => undefined))?.record;
  }

  /** @returns the problem, without the URL, whose path is usually a secret */
  async #send(target: string, body: object): Promise<string | undefined> {
    const { fetch, clock, stopping } = this.#ports;
    try {
      return await within({ clock, ms: SEND_MS, signal: stopping }, async (signal) => {
        const response = await fetch(target, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
          redirect: "manual",
          signal,
        });
        await response.body?.cancel();
        return response.ok ? undefined : `the receiver answered ${response.status}`;
      });
    } catch (error) {
      return `the receiver did not answer${reasonOf(error) || `: ${errorName(error)}`}`;
    }
  }

  /** Changes and stores an alert. Notices may have changed it in the meantime. */
  async #change(key: string, changes: Partial<Alert>): Promise<void> {
    const alert = this.#alerts.get(key);
    if (alert !== undefined) this.#alerts.set(key, { ...alert, ...changes });
    await this.#save();
  }

  /** Writes one after the other, because each write replaces the file. */
  #save(): Promise<void> {
    const { directory } = this.#ports;
    const saved = this.#saving.then(() => {
      const text = `${JSON.stringify({ alerts: [...this.#alerts.values()] }, null, 2)}\n`;
      return directory.write(FILE, new TextEncoder().encode(text));
    });
    this.#saving = saved.catch(() => {});
    return saved;
  }
}
