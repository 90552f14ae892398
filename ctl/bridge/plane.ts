import { AppError } from "@gateway/shared/errors";
import { type JsonClient, readProblem } from "@gateway/shared/http";
import { quoteText } from "@gateway/shared/text";
import { type ApprovalDecision, approvalList, type ApprovalRecord } from "@gateway/shared/wire";
import { adviseOnContact } from "../kit/contact_advice.ts";
import type { BridgeSettings } from "./settings.ts";

/** URLs and buttons contain it. */
const APPROVAL_ID = /^[0-9a-f]{32}$/;

/** The control plane as an approver sees it. */
export type Plane = ReturnType<typeof createPlane>;

/** The methods throw an {@linkcode AppError}; after `decide`, the decision may still have been made. */
export function createPlane(client: Pick<JsonClient, "request">) {
  const ask = async (request: Parameters<JsonClient["request"]>[0]) => {
    const reply = await client.request(request);
    if (reply.status === 200) return reply;
    const { detail, code = "upstream_failure" } = readProblem(reply);
    throw new AppError(code, `the control plane answered ${reply.status}: ${detail}`);
  };
  return {
    async list(): Promise<readonly ApprovalRecord[]> {
      const { data } = approvalList.safeParse((await ask({ method: "GET", path: "/v1/approvals" })).body);
      if (data === undefined || !data.every(({ id }) => APPROVAL_ID.test(id))) {
        throw new AppError("upstream_failure", "the answer is not a control plane's");
      }
      return data;
    },
    async decide(id: string, body: ApprovalDecision): Promise<void> {
      await ask({ method: "POST", path: `/v1/approvals/${encodeURIComponent(id)}`, body });
    },
  };
}

/** Adds a fix to a failure, for the operator only: it names files. */
export function explainPlaneFailure(
  error: unknown,
  { cpUrl: url, ca, cert }: Pick<BridgeSettings, "cpUrl" | "ca" | "cert">,
): unknown {
  if (!(error instanceof AppError)) return error;
  const advice = error.code === "forbidden"
    ? `the CN of ${quoteText(cert)} has to be in its approval.callers, and is so once it is started anew`
    : adviseOnContact(error, { name: "control plane", url, ca });
  if (advice === undefined) return error;
  return new AppError(error.code, `${error.message} at ${url}: ${advice}`, { cause: error });
}
