import { within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import * as z from "@zod/zod";
import { addEvidence, collectContext } from "../context/collect.ts";
import { redactLargeValue } from "../context/redact_context.ts";
import { parseArguments } from "../engine/agents/run_tool.ts";
import { findById } from "../engine/graph/hypothesis_id.ts";
import { selectTemplate } from "../prompts/templates.ts";
import { htmlFileName, renderHtml } from "../report/html.ts";
import { renderReport, reportFileName } from "../report/report.ts";
import { importedRecord, isPresentable, needsEvidence, priorRun } from "../runs/imported.ts";
import type { LiveRun, OperatorPlace } from "../runs/live_run.ts";
import { lastHypotheses, readHypotheses, type ReadRecord, readRecord } from "../runs/record.ts";
import { EFFORTS, forDebaters } from "../settings/config.ts";
import { approvalBody, commentBody, optionsBody, titleBody } from "./bodies.ts";
import { type Form, readForm } from "./form.ts";
import type { Routed, RoutePorts, WebPorts } from "./ports.ts";
import { readOptions, readRunForm, readText } from "./run_form.ts";

const NO_RUN = "No such run";
const OK = () => Response.json({ status: "ok" });
/** Maximum wait for the journal before a run is shown. */
const JOURNAL_MS = 2_000;

export async function handleListRuns({ manager, store }: WebPorts): Promise<Response> {
  const runs = await store.list();
  const waitsFor = (runId: string) => manager.find(runId)?.waitsFor ?? null;
  return Response.json({ runs: runs.map((run) => ({ ...run, waits_for: waitsFor(run.run_id) })) });
}

export async function handleStartRun(ports: WebPorts, { request }: Routed): Promise<Response> {
  return started(await startRun(ports, await readForm(request, ports.settings.MAX_UPLOAD_BYTES)));
}

export async function startRun(
  { settings, manager, redactor, clock, loadTemplates }: Omit<WebPorts, "alerts">,
  form: Form,
  more: { readonly title?: string; readonly operator?: OperatorPlace } = {},
): Promise<string> {
  const { redact, topic, context, ...rest } = readRunForm(form, settings);
  return await manager.start({
    ...rest,
    ...more,
    topic: redact ? redactor(topic).text : topic,
    template: selectTemplate(await loadTemplates(), rest.templateName, rest.language),
    context: await collectContext(context, {
      redact: redact ? redactor : undefined,
      clock,
      allowedRoots: settings.ALLOWED_PROJECT_ROOTS,
    }),
  });
}

/** Waits for the journal, so that everything that a client sees survives a crash. */
export async function handleGetRun(
  { manager, store, clock }: WebPorts,
  { param }: Routed,
): Promise<Response> {
  const live = manager.find(param("run_id"));
  if (live !== undefined) {
    const answer = Response.json(live.toRecord());
    // A hanging disk must not hide the run.
    await within({ clock, ms: JOURNAL_MS }, live.settle()).catch(() => {});
    return answer;
  }
  const stored = await store.read(param("run_id"));
  if (stored === undefined) throw new AppError("not_found", NO_RUN);
  return new Response(stored.text, { headers: { "content-type": "application/json" } });
}

export async function handleDeleteRun(
  { manager, store, events }: RoutePorts,
  { param }: Routed,
): Promise<Response> {
  const runId = param("run_id");
  events.forget(runId);
  const live = manager.find(runId);
  live?.cancel();
  if (live === undefined) await store.delete(runId);
  return Response.json({ status: live === undefined ? "deleted" : "cancelling" });
}

export async function handleResume(ports: WebPorts, { request, param }: Routed): Promise<Response> {
  const { manager, store, settings, loadTemplates, redactor: redact, clock } = ports;
  const runId = param("run_id");
  return await store.hold(runId, async () => {
    if (manager.find(runId) !== undefined) {
      throw new AppError("conflict", "Cannot resume the run: it is still in progress");
    }
    const record = (await store.read(runId))?.record;
    if (record === undefined) throw new AppError("not_found", NO_RUN);
    const form = await readForm(request, settings.MAX_UPLOAD_BYTES);
    const text = readText(form, "new_evidence");
    const files = form.files.get("evidence_file") ?? [];
    if (text === "" && files.length === 0 && needsEvidence(record)) {
      const problem = "is required without evidence_file, unless the run failed or was interrupted";
      throw new AppError("invalid_request", `Field new_evidence: ${problem}`);
    }
    const { title, topic, models, reasoning_effort } = record;
    const templateName = record.template ?? settings.PROMPT_TEMPLATE;
    const language = record.language ?? settings.PROMPT_LANGUAGE;
    return started(
      await manager.start({
        ...(title !== null && { title }),
        topic: topic ?? "",
        context: await addEvidence(record.context, { text, files }, { redact, clock }),
        models: forDebaters((role, prefix) => models?.[role] || settings[`${prefix}_MODEL`]),
        efforts: forDebaters((role) => EFFORTS.find((each) => each === reasoning_effort[role]) ?? "none"),
        templateName,
        language,
        template: selectTemplate(await loadTemplates(), templateName, language),
        options: readOptions(form, settings),
        mode: "debate",
        parent: { runId, topic: topic ?? "", prior: priorRun(record) },
      }),
    );
  });
}

/** The report of a run in progress covers its events so far. */
export async function handleReport(ports: WebPorts, { param }: Routed): Promise<Response> {
  const report = renderReport(await findRecord(ports, param("run_id")));
  return download(report, "text/markdown", reportFileName(param("run_id")));
}

export async function handleHtmlReport(ports: WebPorts, { param }: Routed): Promise<Response> {
  const report = renderHtml(await findRecord(ports, param("run_id")));
  return download(report, "text/html", htmlFileName(param("run_id")));
}

function download(text: string, type: string, name: string): Response {
  const disposition = `attachment; filename="${name}"`;
  const headers = { "content-type": `${type}; charset=utf-8`, "content-disposition": disposition };
  return new Response(text, { headers });
}

async function findRecord({ manager, store }: WebPorts, runId: string): Promise<ReadRecord> {
  const live = manager.find(runId);
  const record = live === undefined ? (await store.read(runId))?.record : readRecord(runId, live.toRecord());
  if (record === undefined) throw new AppError("not_found", NO_RUN);
  return record;
}

/** Stores the record of another server under a new ID. */
export async function handleImport(ports: WebPorts, { request }: Routed): Promise<Response> {
  const { store, settings, clock, newId, redactor } = ports;
  const body = await readJson(request, z.record(z.string(), z.unknown()), settings.MAX_UPLOAD_BYTES);
  if (!isPresentable(body)) {
    throw new AppError("unprocessable", "The record is nested too deeply, or has too many values");
  }
  const runId = newId(16);
  const read = readRecord(runId, await redactLargeValue(body, redactor, clock));
  const record = read && importedRecord(read, clock.now());
  if (record === undefined) throw new AppError("unprocessable", "The body is not the record of a run");
  await store.add(runId, record);
  return started(runId);
}

/** Lists show a title instead of the beginning of the topic. An empty title removes it. */
export async function handleTitle(ports: WebPorts, { request, param }: Routed): Promise<Response> {
  const { title } = await readJson(request, titleBody);
  if (ports.manager.find(param("run_id")) !== undefined) {
    throw new AppError("conflict", "Cannot rename the run: it is still in progress");
  }
  const { text } = ports.redactor(title.replace(/\s+/g, " ").trim());
  const isKnown = await ports.store.rename(param("run_id"), text);
  if (!isKnown) throw new AppError("not_found", NO_RUN);
  return OK();
}

function started(runId: string): Response {
  return Response.json({ run_id: runId });
}

export async function handleApproval(ports: WebPorts, { request, param }: Routed): Promise<Response> {
  const { call_id, approved, for_run, args } = await readJson(request, approvalBody);
  if (args !== undefined && (!approved || for_run)) {
    throw new AppError("unprocessable", "Field args: requires approved: true and for_run: false");
  }
  // The same limits apply to the arguments of a model. The tool validates the rest.
  const edited = args && parseArguments(JSON.stringify(args));
  if (typeof edited === "string") throw new AppError("unprocessable", `Field args: ${edited}`);
  const runId = param("run_id");
  if (ports.manager.find(runId) === undefined && await ports.store.read(runId) !== undefined) {
    const text = "The run has ended: its tool calls can no longer be approved or rejected";
    throw new AppError("gone", text);
  }
  const answer = `${approved ? "approved" : "rejected"}${for_run ? "_for_run" : ""}` as const;
  liveRun(ports, runId).decide(call_id, answer, edited);
  return OK();
}

export async function handleComment(ports: WebPorts, { request, param }: Routed): Promise<Response> {
  const { comment, changes } = await readJson(request, commentBody);
  const run = liveRun(ports, param("run_id"));
  const known = readHypotheses(lastHypotheses(run.events));
  for (const change of changes) {
    if (change.kind !== "add" && findById(known, change.id) === undefined) {
      throw new AppError("invalid_request", `Field changes: unknown hypothesis "${change.id}"`);
    }
  }
  run.comment({ comment: comment.trim(), changes });
  return OK();
}

/** A missing option keeps its value. */
export async function handleOptions(ports: WebPorts, { request, param }: Routed): Promise<Response> {
  const body = await readJson(request, optionsBody);
  const { requireApproval, pauseBetweenRounds } = liveRun(ports, param("run_id")).change({
    ...(typeof body.require_approval === "boolean" && { requireApproval: body.require_approval }),
    ...(typeof body.pause_between_rounds === "boolean" && { pauseBetweenRounds: body.pause_between_rounds }),
  });
  const options = { require_approval: requireApproval, pause_between_rounds: pauseBetweenRounds };
  return Response.json({ status: "ok", ...options });
}

function liveRun({ manager }: WebPorts, runId: string): LiveRun {
  const run = manager.find(runId);
  if (run === undefined) throw new AppError("not_found", "No such run is in progress");
  return run;
}

const MAX_BODY_BYTES = 256 * 1024;

export async function readJson<T>(
  request: Request,
  schema: z.ZodType<T>,
  maxBytes = MAX_BODY_BYTES,
): Promise<T> {
  requireJsonType(request);
  try {
    return await readJsonBody(request, { maxBytes, schema });
  } catch (error) {
    const isMisshapen = error instanceof AppError && error.code === "invalid_request";
    throw isMisshapen ? new AppError("unprocessable", error.message, { cause: error }) : error;
  }
}
