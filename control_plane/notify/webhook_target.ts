import { AppError } from "@gateway/shared/errors";
import { webhookUrlProblem } from "../config.ts";

/**
 * Where notifications are posted to. Plain http is for this machine only: the commands of others would cross
 * the network for all to read.
 *
 * @throws {AppError} `invalid_config`; the message leaves out the address, which may hold a secret
 */
export function webhookTarget(url: string): URL {
  const problem = webhookUrlProblem(url);
  const target = URL.parse(url);
  if (problem === undefined && target !== null) return target;
  throw new AppError("invalid_config", `Cannot use approval.webhook_url: ${problem ?? "is not a URL"}`);
}
