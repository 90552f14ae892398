import { askedKind, isCommandShown } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";

export const TITLE = "Access Broker — Approval Required";
export function explanationOf(record: ApprovalRecord): string {
  const what = isCommandShown(askedKind(record)) ? "command" : "request";
  return `A ${what} waits for the decision of a second person. Nothing runs until someone approves it.`;
}

export const VIEW_REQUEST = "View request";
