import * as z from "@zod/zod";
import { DEFAULT_TAIL_LINES } from "../kubernetes/request.ts";
import { cluster, dryRun } from "./k8s_arguments.ts";
import { defineTool, guardInput, reasonArgument, type Tool } from "./tool.ts";
import { ACTION_RULES, actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";

const input = z.strictObject({
  cluster,
  namespace: z.string().describe("Namespace of the pod"),
  pod: z.string().describe("Name of the pod"),
  container: z.string().optional().describe("Which container; leave it out where the pod has one"),
  tail_lines: z.int().optional().describe(`How many of the last lines; default ${DEFAULT_TAIL_LINES}`),
  since_seconds: z.int().optional().describe("Only lines of the last so many seconds"),
  dry_run: dryRun,
  reason: reasonArgument,
});

const description = [
  "Read the last lines of a pod's log. What looks like a secret is masked. It does not follow the log: call again.",
  ACTION_RULES,
].join(" ");

/** `k8s_logs`: reads the end of a pod's log. */
export function createK8sLogsTool(ports: ActionToolPorts): Tool {
  return defineTool({
    name: "k8s_logs",
    title: "Read a pod's log",
    description,
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    input,
    output: actionOutput,
    guarded: ["cluster", "namespace", "container"],
    handle({ cluster, namespace, pod, container, tail_lines, since_seconds, dry_run, reason }, context) {
      guardInput("name", pod);
      return answerAction(ports, {
        cluster,
        asked: { verb: "logs", resource: "pods", group: "", namespace, name: pod },
        options: { container, tailLines: tail_lines, sinceSeconds: since_seconds },
        dryRun: dry_run ?? false,
        reason,
      }, context);
    },
  });
}
