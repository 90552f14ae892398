import type { JsonClient } from "@gateway/shared/http";
import { approvalList, type ApprovalRecord } from "@gateway/shared/wire";
import { runBrokerCtl, type Stage } from "../stage/stage.ts";
import type { Agent } from "./agent.ts";

/** The participants of the demo, after everything has started. */
export interface Scene {
  readonly stage: Stage;
  readonly agent: Agent;
  /** Client of the broker's HTTP frontend with the agent's certificate. */
  readonly http: JsonClient;
  /** Client of the control plane with the approver's certificate. */
  readonly approver: JsonClient;
}

/** Output of a `broker-ctl` command. */
export interface CtlOutput {
  readonly ok: boolean;
  /** Its standard output, or its error. */
  readonly text: string;
}

/** Runs `broker-ctl` with the client config of the installation. */
export async function brokerCtl({ init }: Stage, ...args: readonly string[]): Promise<CtlOutput> {
  const output = await runBrokerCtl([...args, "--client-config", init.client_config], init.folder);
  const bytes = output.success ? output.stdout : output.stderr;
  return { ok: output.success, text: new TextDecoder().decode(bytes).trim() };
}

/** Returns all approvals that the control plane has. */
export async function listApprovals(approver: JsonClient): Promise<readonly ApprovalRecord[]> {
  const { body } = await approver.request({ method: "GET", path: "/v1/approvals" });
  return approvalList.parse(body);
}

/** Returns the current state of one approval. */
export async function findApproval(approver: JsonClient, id: string): Promise<ApprovalRecord> {
  const found = (await listApprovals(approver)).find((record) => record.id === id);
  if (found === undefined) throw new Error(`the control plane has no approval ${id}`);
  return found;
}

/** Joins the lines of a text. */
export function oneLine(text: string): string {
  return text.trim().replaceAll(/\s*\n\s*/g, " ");
}
