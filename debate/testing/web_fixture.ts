import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { type Alert, AlertDesk, readAlerts } from "../alerts/desk.ts";
import { pageUrl, startAlertRun } from "../web/alert_handlers.ts";
import { createRunMetrics } from "../web/metrics.ts";
import { createDebateApp, type DebateHandler } from "../web/app.ts";
import { loadSettings } from "../settings/config.ts";
import { createContextRedactor } from "../context/redact_context.ts";
import type { DeviceFlowState } from "../models/device_flow.ts";
import type { AuditLine, Model, Tool } from "../engine/ports.ts";
import { priceTable } from "../models/prices.ts";
import { collectTemplates, type TemplateFile } from "../prompts/templates.ts";
import { RunManager } from "../runs/manager.ts";
import { RunStore } from "../runs/store.ts";
import type { WebPorts } from "../web/ports.ts";
import { CLOSING, CONTINUE, FixedTool, SHORT_SCRIPT } from "./debate_fixture.ts";
import { MemoryDirectory } from "./memory_directory.ts";
import { call, never, ScriptedModel } from "./scripted_model.ts";

/** An event of a record. */
export interface Typed {
  readonly type: string;
}

/** The options of a test. */
export interface WebFixtureOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** An error means that the model is not available. */
  readonly model?: Model | Error;
  readonly tools?: readonly Tool[];
  readonly directory?: MemoryDirectory;
  readonly clock?: FakeClock;
  readonly login?: DeviceFlowState;
  readonly templates?: readonly TemplateFile[];
}

type Fields = Readonly<Record<string, string | Blob>>;

/** A secret of the server, which is masked everywhere. */
export const OWN_SECRET = "correct-horse-battery";

/** The web server without sockets, disk or network, on a fake clock. */
export class WebFixture {
  readonly clock: FakeClock;
  readonly directory: MemoryDirectory;
  readonly manager: RunManager;
  readonly store: RunStore;
  readonly alerts: AlertDesk;
  readonly metrics: ReturnType<typeof createRunMetrics>["metrics"];
  /** The requests to the chat, and its next answers; afterwards it answers 200. */
  readonly chat: { readonly sent: string[]; readonly statuses: number[]; during?: () => Promise<unknown> } = {
    sent: [],
    statuses: [],
  };
  readonly stopping = new AbortController();
  readonly warnings: string[] = [];
  readonly audited: AuditLine[] = [];
  readonly failures: string[] = [];
  readonly errors: unknown[] = [];
  /** Headers of requests without headers. */
  readonly headers: Record<string, string> = { host: "127.0.0.1:8000" };
  /** The client address of requests. */
  address = "203.0.113.7";
  /** The handler for requests that `send()` cannot create. */
  readonly handler: DebateHandler;

  private constructor(
    store: RunStore,
    options: Required<Omit<WebFixtureOptions, "login">>,
    stored: readonly Alert[],
    login?: DeviceFlowState,
  ) {
    this.store = store;
    this.clock = options.clock;
    this.directory = options.directory;
    const settings = loadSettings({ env: { HOME: "/home/ann", ...options.env }, workingFolder: "/work" });
    let ids = 0;
    const newId = (bytes: number) => (++ids).toString(16).padStart(2 * bytes, "0");
    const warn = (message: string) => this.warnings.push(message);
    const redactor = createContextRedactor([OWN_SECRET]);
    const { metrics, observe, watch, measured } = createRunMetrics(options.tools.map(({ name }) => name));
    this.metrics = metrics;
    const toolset = () => Promise.resolve({ tools: options.tools, statuses: [] });
    this.manager = new RunManager(settings, {
      store,
      observe,
      clock: this.clock,
      newId,
      openModel: () => {
        if (options.model instanceof Error) throw options.model;
        return measured(options.model);
      },
      toolset,
      audit: (line) => void this.audited.push(line),
      redact: (text) => redactor(text).text,
      estimateCost: () => null,
      warn,
      fail: (message) => this.failures.push(message),
    });
    const catalogue = {
      models: [{ id: "replay/script", name: "script", provider: "replay" as const }],
      problems: [],
    };
    const ports: Omit<WebPorts, "alerts"> = {
      sandboxProblem: "bwrap is missing",
      toolset,
      settings,
      clock: this.clock,
      store,
      manager: this.manager,
      redactor,
      loadTemplates: () => Promise.resolve(collectTemplates(options.templates)),
      prices: priceTable({ "replay/script": { input: 1, output: 2 } }),
      providers: {
        catalogue: { list: () => Promise.resolve(catalogue), refresh: () => Promise.resolve(catalogue) },
        assistToken: () => Promise.resolve("abcdefgh"),
        sessions: {
          status: () =>
            Promise.resolve({
              isConfigured: true,
              isValid: true,
              expiresInSeconds: 1500,
              problem: undefined,
            }),
        },
        deviceFlows: {
          start: () => login === undefined ? Promise.reject(new Error("no flow")) : Promise.resolve(login),
          check: (code) => Promise.resolve(code === login?.device_code ? login : undefined),
        },
      },
      onError: (error) => this.errors.push(error),
      newId,
      randomBytes: (length) => new Uint8Array(length).fill(++ids),
      stopping: this.stopping.signal,
    };
    this.alerts = new AlertDesk({
      ...ports,
      directory: this.directory,
      redact: (text) => redactor(text).text,
      start: (alert) => startAlertRun(ports, alert),
      fetch: async (_, init) => {
        this.chat.sent.push(String(init?.body));
        await this.chat.during?.();
        return new Response(null, { status: this.chat.statuses.shift() ?? 200 });
      },
      urlOf: (runId) => pageUrl(settings, runId),
      log: warn,
    }, stored);
    watch(this.manager, this.alerts);
    this.handler = createDebateApp({ ...ports, alerts: this.alerts });
  }

  static async open(options: WebFixtureOptions = {}): Promise<WebFixture> {
    const { directory = new MemoryDirectory(), clock = new FakeClock(), login } = options;
    const { env = {}, model = new ScriptedModel(SHORT_SCRIPT), tools = [], templates = [] } = options;
    const store = await RunStore.open({ directory, warn: () => {} });
    const stored = await readAlerts(directory);
    return new WebFixture(store, { directory, clock, env, model, tools, templates }, stored, login);
  }

  /** Sends a request. */
  send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(this.headers);
    for (const [name, value] of new Headers(init.headers)) headers.set(name, value);
    const request = new Request(`http://127.0.0.1:8000${path}`, { ...init, method, headers });
    return this.handler(request, { address: this.address, trust: () => {} });
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    return this.send("GET", path, { headers });
  }

  post(path: string, body: unknown): Promise<Response> {
    return this.send("POST", path, {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  }

  form(path: string, fields: Fields): Promise<Response> {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    return this.send("POST", path, { body: form });
  }

  /** Starts a run and returns its ID. */
  async start(fields: Fields = {}): Promise<string> {
    const response = await this.form("/api/runs", { topic: "checkout answers slowly", ...fields });
    const { run_id } = await response.json();
    return run_id;
  }

  /** Starts a run and waits for its end. */
  async startAndEnd(fields: Fields = {}): Promise<string> {
    const runId = await this.start(fields);
    await this.end(runId);
    return runId;
  }

  /** Waits for the end of a run. */
  async end(runId: string): Promise<void> {
    for (let turns = 0; this.manager.find(runId) !== undefined; turns++) {
      if (turns > 1000) throw new Error("the run does not end");
      await this.clock.advance(1);
    }
  }

  /** Waits until a condition is true, for example until a run waits for the operator. */
  async settle(): Promise<void> {
    for (let turns = 0; turns < 20; turns++) await this.clock.advance(0);
  }

  /** Cancels a run and waits for its end. */
  async stop(runId: string): Promise<void> {
    await this.send("DELETE", `/api/runs/${runId}`);
    await this.end(runId);
  }

  async record(runId: string) {
    return await (await this.get(`/api/runs/${runId}`)).json();
  }

  /** The events of a type that a run has had. */
  async eventsOf(runId: string, wanted: string) {
    return (await this.record(runId)).events.filter(({ type }: Typed) => type === wanted);
  }
}

/** Lets the runs of alerts advance until nothing is in progress. */
export async function settleAlerts(web: WebFixture): Promise<void> {
  for (let turns = 0; turns < 3; turns++) {
    await web.settle();
    await web.alerts.work();
  }
}

/** A server with a run that has advanced as far as possible without an operator. */
export async function openRun(options: WebFixtureOptions = {}, fields: Fields = {}) {
  const web = await WebFixture.open(options);
  const runId = await web.start(fields);
  await web.settle();
  return { web, runId };
}

/** A server with a run whose call of {@linkcode GUARDED_TOOL} waits for an approval. */
export async function openGuarded() {
  const tool = new FixedTool(GUARDED_TOOL);
  const { web, runId } = await openRun({ model: withTool(), tools: [tool] });
  const [asked] = await web.eventsOf(runId, "tool_approval_request");
  return { web, runId, tool, asked };
}

/** The events of a finished stream, with their IDs. */
export function readFrames(
  text: string,
): readonly { readonly id: string; readonly data: Typed }[] {
  return text.split("\n\n").flatMap((frame) => {
    const match = /^id: (\S+)\nevent: message\ndata: (.*)$/.exec(frame);
    return match === null ? [] : [{ id: match[1] ?? "", data: JSON.parse(match[2] ?? "") }];
  });
}

/** The problem document of a rejection, after a check of its form. */
export async function problemOf(response: Response) {
  const { status, code, detail } = await response.json();
  assert.equal(response.headers.get("content-type"), "application/problem+json");
  assert.equal(response.status, status);
  return { status, code, detail };
}

/** A debate that does not end without help. */
export const hanging = () => new ScriptedModel({ ...SHORT_SCRIPT, diagnostic_agent: [() => never()] });

/** A debate of two rounds. */
export const twoRounds = () => new ScriptedModel({ ...SHORT_SCRIPT, moderator_agent: [CONTINUE, CLOSING] });

/** A tool that needs approval. */
export const GUARDED_TOOL = "run_kubectl";

/** A debate whose diagnostic agent first calls a tool. */
export const withTool = (name = GUARDED_TOOL) =>
  new ScriptedModel({
    ...SHORT_SCRIPT,
    diagnostic_agent: [
      { toolCalls: [call(name, { args: ["get", "pods"] })] },
      "### HYPOTHESIS-1\nText: the pool",
    ],
  });
