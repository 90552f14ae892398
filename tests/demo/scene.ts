import type { JsonClient } from "@gateway/shared/http";
import { approvalList, type ApprovalRecord } from "@gateway/shared/wire";
import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import type { Agent } from "./agent.ts";

/** Who takes part in the demo, once everything has started. */
export interface Scene {
  readonly stage: Stage;
  readonly agent: Agent;
  /** The broker's HTTP frontend, as the agent. */
  readonly http: JsonClient;
  /** The control plane, as the approver. */
  readonly approver: JsonClient;
}

/** What a command of the operator's tool wrote. */
export interface CtlOutput {
  readonly ok: boolean;
  /** What it did, or its error. */
  readonly text: string;
}

/** Runs `broker-ctl` with the client config of the set-up. */
export async function brokerCtl({ init }: Stage, ...args: readonly string[]): Promise<CtlOutput> {
  const output = await runBrokerCtl([...args, "--client-config", init.client_config], init.folder);
  const bytes = output.success ? output.stdout : output.stderr;
  return { ok: output.success, text: new TextDecoder().decode(bytes).trim() };
}

/** All approvals that the control plane still knows. */
export async function listApprovals(approver: JsonClient): Promise<readonly ApprovalRecord[]> {
  const { body } = await approver.request({ method: "GET", path: "/v1/approvals" });
  return approvalList.parse(body);
}

/** One approval as it is now. */
export async function findApproval(approver: JsonClient, id: string): Promise<ApprovalRecord> {
  const found = (await listApprovals(approver)).find((record) => record.id === id);
  if (found === undefined) throw new Error(`the control plane has forgotten ${id}`);
  return found;
}

/** A text of several lines in one. */
export function oneLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, " ");
}
