import { AppError } from "@gateway/shared/errors";
import type { ClusterPolicy } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { HintedError } from "../output.ts";

/** @throws {AppError} `not_found` where the config has no such cluster */
export function clusterOf({ kubernetes }: SignerConfig, name: string): ClusterPolicy {
  const cluster = kubernetes?.clusters[name];
  if (cluster !== undefined) return cluster;
  const error = new AppError("not_found", `Cannot find cluster ${quoteText(name)}: unknown cluster`);
  throw new HintedError(error, "broker-ctl cluster list shows the clusters");
}
