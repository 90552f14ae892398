import { AppError } from "@gateway/shared/errors";
import { type JsonClient, readProblem } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import { type ApprovalDecision, approvalList, type ApprovalRecord } from "@gateway/shared/wire";
import { adviseOnContact } from "../kit/contact_advice.ts";
import type { BridgeSettings } from "./settings.ts";

/** The form of approval IDs, which become part of URLs and buttons. */
const APPROVAL_ID = /^[0-9a-f]{32}$/;

/** The control plane as an approver sees it. */
export type ControlPlaneClient = ReturnType<typeof createControlPlaneClient>;

/** The methods throw an {@linkcode AppError}; after `decide`, the decision may still have been made. */
export function createControlPlaneClient(client: Pick<JsonClient, "request">) {
  const ask = async (request: Parameters<JsonClient["request"]>[0]) => {
    const reply = await client.request(request);
    if (reply.status === 200) return reply;
    const { detail, code = "upstream_failure" } = readProblem(reply);
    throw new AppError(code, `the control plane responded with HTTP ${reply.status}: ${detail}`);
  };
  return {
    async list(): Promise<readonly ApprovalRecord[]> {
      const { data } = approvalList.safeParse((await ask({ method: "GET", path: "/v1/approvals" })).body);
      if (data === undefined || !data.every(({ id }) => APPROVAL_ID.test(id))) {
        throw new AppError("upstream_failure", "the server did not respond like a control plane");
      }
      return data;
    },
    async decide(id: string, body: ApprovalDecision): Promise<void> {
      await ask({ method: "POST", path: `/v1/approvals/${encodeURIComponent(id)}`, body });
    },
  };
}

/** Adds a fix to a failure. The result names files, so only the operator may see it. */
export function explainControlPlaneFailure(
  error: unknown,
  { cpUrl: url, ca, cert }: Pick<BridgeSettings, "cpUrl" | "ca" | "cert">,
): unknown {
  if (!(error instanceof AppError)) return error;
  const advice = error.code === "forbidden"
    ? `add the CN of ${quoteText(cert)} to approval.callers of its config, and restart it`
    : adviseOnContact(error, { name: "control plane", url, ca });
  if (advice === undefined) return error;
  return new AppError(error.code, `${error.message} at ${url}: ${advice}`, { cause: error });
}
