import { AppError } from "@gateway/shared/errors";
import { readJsonBody, requireJsonType } from "@gateway/shared/http";
import { within } from "@gateway/shared/clock";
import * as z from "@zod/zod";
import type { LiveRun } from "../runs/live_run.ts";
import { importedRecord, isPresentable, priorRun } from "../runs/foreign.ts";
import {
  lastHypotheses,
  readHypotheses,
  type ReadRecord,
  readRecord,
  type RunEfforts,
} from "../runs/record.ts";
import { parseArguments } from "../engine/agents/run_tool.ts";
import type { ToolArgs } from "../engine/events.ts";
import { findById } from "../engine/graph/hypothesis_id.ts";
import { htmlFileName, renderHtml } from "../report/html.ts";
import { renderReport, reportFileName } from "../report/report.ts";
import { selectTemplate } from "../prompts/templates.ts";
import { approvalBody, commentBody, optionsBody, titleBody } from "./bodies.ts";
import { EFFORTS } from "../settings/config.ts";
import { type Form, readForm } from "./form.ts";
import type { Evidence, WebPorts } from "./ports.ts";
import { readOptions, readRunForm, readText } from "./run_form.ts";

const NO_RUN = "There is no such run";
/** How long a run's journal may take to be written before the run is shown without it. */
const JOURNAL_MS = 2_000;

export async function handleListRuns({ manager, store }: WebPorts): Promise<Response> {
  const runs = await store.list();
  return Response.json({
    runs: runs.map((run) => ({ ...run, waits_for: manager.find(run.run_id)?.waitsFor ?? null })),
  });
}

export async function handleStartRun(ports: WebPorts, request: Request): Promise<Response> {
  const { settings, manager, collectContext, redact, loadTemplates } = ports;
  const form = readRunForm(await readForm(request, { maxFileBytes: settings.MAX_UPLOAD_BYTES }), settings);
  const { models, efforts, template: templateName, language, options, mode } = form;
  const topic = form.redact ? redact(form.topic) : form.topic;
  const template = selectTemplate(await loadTemplates(), templateName, language);
  const context = await collectContext(form.context, form.redact);
  return started(
    await manager.start({
      topic,
      context,
      models,
      efforts,
      templateName,
      language,
      template,
      options,
      mode,
    }),
  );
}

/** `GET /api/runs/{run_id}`: what is shown of a run in progress is in its journal, and so survives a kill. */
export async function handleGetRun({ manager, store, clock }: WebPorts, runId: string): Promise<Response> {
  const live = manager.find(runId);
  if (live !== undefined) {
    const answer = Response.json(live.toRecord());
    // A disk that hangs must not keep the run from being looked at.
    await within({ clock, ms: JOURNAL_MS }, live.settle()).catch(() => {});
    return answer;
  }
  const stored = await store.read(runId);
  if (stored === undefined) throw new AppError("not_found", NO_RUN);
  return new Response(stored.text, { headers: { "content-type": "application/json" } });
}

/** `DELETE /api/runs/{run_id}`: stops a run in progress and keeps its record; removes any other run. */
export async function handleDeleteRun({ manager, store }: WebPorts, runId: string): Promise<Response> {
  const live = manager.find(runId);
  if (live !== undefined) {
    live.cancel();
    return Response.json({ status: "cancelling" });
  }
  await store.delete(runId);
  return Response.json({ status: "deleted" });
}

/** `POST /api/runs/{run_id}/resume`: a form with `new_evidence` or files `evidence_file`. */
export async function handleResume(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  return await ports.store.hold(runId, () => resume(ports, request, runId));
}

async function resume(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { manager, store, settings, loadTemplates, addEvidence } = ports;
  if (manager.find(runId) !== undefined) {
    throw new AppError("conflict", "The run is still in progress: wait until it ends, or cancel it");
  }
  const stored = await store.read(runId);
  if (stored === undefined) throw new AppError("not_found", NO_RUN);
  const form = await readForm(request, { maxFileBytes: settings.MAX_UPLOAD_BYTES });
  const { record } = stored;
  const topic = record.topic ?? "";
  const templateName = record.template ?? settings.PROMPT_TEMPLATE;
  const language = record.language ?? settings.PROMPT_LANGUAGE;
  return started(
    await manager.start({
      topic,
      context: await addEvidence(record.context, readEvidence(form)),
      models: {
        diagnostic: record.models?.diagnostic || settings.DIAGNOSTIC_MODEL,
        skeptic: record.models?.skeptic || settings.SKEPTIC_MODEL,
        moderator: record.models?.moderator || settings.MODERATOR_MODEL,
      },
      efforts: toEfforts(record),
      templateName,
      language,
      template: selectTemplate(await loadTemplates(), templateName, language),
      options: readOptions(form, settings),
      mode: "debate",
      parent: { runId, topic, prior: priorRun(record) },
    }),
  );
}

/** `GET /api/runs/{run_id}/report`: Markdown; the report of a run in progress covers what has happened so far. */
export async function handleReport(ports: WebPorts, runId: string): Promise<Response> {
  return new Response(renderReport(await findRecord(ports, runId)), {
    headers: {
      "content-type": "text/markdown; charset=utf-8",
      "content-disposition": `attachment; filename="${reportFileName(runId)}"`,
    },
  });
}

/** `GET /api/runs/{run_id}/report.html`: the same as one HTML file. */
export async function handleHtmlReport(ports: WebPorts, runId: string): Promise<Response> {
  return new Response(renderHtml(await findRecord(ports, runId)), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-disposition": `attachment; filename="${htmlFileName(runId)}"`,
    },
  });
}

async function findRecord({ manager, store }: WebPorts, runId: string): Promise<ReadRecord> {
  const live = manager.find(runId);
  const record = live === undefined ? (await store.read(runId))?.record : toReadRecord(live);
  if (record === undefined) throw new AppError("not_found", NO_RUN);
  return record;
}

/** `POST /api/runs/import`: the JSON of a run of another server, to look at it here. It gets an id of its own. */
export async function handleImport(ports: WebPorts, request: Request): Promise<Response> {
  const { store, settings, clock, randomBytes, redactAll } = ports;
  const body = await readJson(request, z.record(z.string(), z.unknown()), settings.MAX_UPLOAD_BYTES);
  if (!isPresentable(body)) {
    throw new AppError("unprocessable", "The record nests deeper, or has more in it, than that of any run");
  }
  const runId = randomBytes(16).toHex();
  const read = readRecord(runId, await redactAll(body));
  const record = read === undefined ? undefined : importedRecord(read, clock.now());
  if (record === undefined) throw new AppError("unprocessable", "This is not the record of a run");
  await store.add(runId, record);
  return started(runId);
}

/** `POST /api/runs/{run_id}/title`: a title in place of the beginning of the topic; an empty one takes it away. */
export async function handleTitle(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { title } = await readJson(request, titleBody);
  if (ports.manager.find(runId) !== undefined) {
    throw new AppError("conflict", "The run is still in progress: it can be renamed when it has ended");
  }
  if (!await ports.store.rename(runId, ports.redact(title.replace(/\s+/g, " ").trim()))) {
    throw new AppError("not_found", NO_RUN);
  }
  return Response.json({ status: "ok" });
}

function toReadRecord(live: LiveRun): ReadRecord | undefined {
  return readRecord(live.header.run_id, live.toRecord());
}

function started(runId: string): Response {
  return Response.json({ run_id: runId });
}

function readEvidence(form: Form): Evidence {
  const text = readText(form, "new_evidence");
  const files = form.files.get("evidence_file") ?? [];
  if (text === "" && files.length === 0) {
    throw new AppError(
      "invalid_request",
      "Field new_evidence: provide new evidence as text, or as files in evidence_file",
    );
  }
  return { text, files };
}

function toEfforts({ reasoning_effort: efforts }: ReadRecord): RunEfforts {
  const known = (effort: string | undefined) => EFFORTS.find((each) => each === effort) ?? "none";
  return {
    diagnostic: known(efforts.diagnostic),
    skeptic: known(efforts.skeptic),
    moderator: known(efforts.moderator),
  };
}

/** `POST /api/runs/{run_id}/approval`: the operator's decision about a tool call. */
export async function handleApproval(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { call_id, approved, for_run, args } = await readJson(request, approvalBody);
  if (args !== undefined && (!approved || for_run)) {
    throw new AppError(
      "unprocessable",
      "Field args: other arguments can be approved, and for this call only",
    );
  }
  const edited = args === undefined ? undefined : checkArguments(args);
  if (ports.manager.find(runId) === undefined && await ports.store.read(runId) !== undefined) {
    throw new AppError(
      "gone",
      "The run has ended: none of its tool calls can be approved or rejected any more",
    );
  }
  liveRun(ports, runId).decide(
    call_id,
    `${approved ? "approved" : "rejected"}${for_run ? "_for_run" : ""}`,
    edited,
  );
  return Response.json({ status: "ok" });
}

/** `POST /api/runs/{run_id}/comment`: the operator's comment between two rounds. */
export async function handleComment(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const { comment, changes } = await readJson(request, commentBody);
  const run = liveRun(ports, runId);
  const known = readHypotheses(lastHypotheses(run.events));
  for (const change of changes) {
    if (change.kind !== "add" && findById(known, change.id) === undefined) {
      throw new AppError("invalid_request", `Field changes: there is no hypothesis "${change.id}"`);
    }
  }
  run.comment({ comment: comment.trim(), changes });
  return Response.json({ status: "ok" });
}

/** The limits are those for what a model asks for; the tool then checks the rest as for a model. */
function checkArguments(args: ToolArgs): ToolArgs {
  const parsed = parseArguments(JSON.stringify(args));
  if (parsed.kind === "broken") throw new AppError("unprocessable", `Field args: ${parsed.problem}`);
  return parsed.args;
}

/** `POST /api/runs/{run_id}/options`: options that are left out stay unchanged. */
export async function handleOptions(ports: WebPorts, request: Request, runId: string): Promise<Response> {
  const body = await readJson(request, optionsBody);
  const { requireApproval, pauseBetweenRounds } = liveRun(ports, runId).change({
    ...(typeof body.require_approval === "boolean" && { requireApproval: body.require_approval }),
    ...(typeof body.pause_between_rounds === "boolean" && { pauseBetweenRounds: body.pause_between_rounds }),
  });
  return Response.json({
    status: "ok",
    require_approval: requireApproval,
    pause_between_rounds: pauseBetweenRounds,
  });
}

function liveRun({ manager }: WebPorts, runId: string): LiveRun {
  const run = manager.find(runId);
  if (run === undefined) throw new AppError("not_found", "There is no such run in progress");
  return run;
}

const MAX_BODY_BYTES = 256 * 1024;

async function readJson<T>(request: Request, schema: z.ZodType<T>, maxBytes = MAX_BODY_BYTES): Promise<T> {
  requireJsonType(request);
  try {
    return await readJsonBody(request, { maxBytes, schema });
  } catch (error) {
    const isMisshapen = error instanceof AppError && error.code === "invalid_request";
    throw isMisshapen ? new AppError("unprocessable", error.message, { cause: error }) : error;
  }
}
