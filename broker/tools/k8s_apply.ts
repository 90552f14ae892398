import * as z from "@zod/zod";
import { GUARDED_OBJECT, OBJECT_ARGUMENTS } from "./k8s_arguments.ts";
import { ACTION_RULES, actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";
import { defineTool, type Tool } from "./tool.ts";

const input = z.strictObject({
  ...OBJECT_ARGUMENTS,
  manifest: z.string().describe(
    "The object as one JSON document (not YAML), at most 65536 bytes; apiVersion, kind, metadata.name and " +
      "metadata.namespace must be those of the other arguments",
  ),
  force_fields: z.array(z.string()).optional().describe(
    "Fields to take over from other managers, all that a conflict has named and as it names them; a human usually has " +
      "to approve",
  ),
});

const description = [
  "Create or change one object of a cluster by server-side apply: what the manifest names is set, the rest stays.",
  "Fields that another manager has set are a conflict, which is an error: leave them out of the manifest, or, if the",
  "user wants to take them over, call again with all of them in force_fields. A human may have to",
  "approve exactly this manifest first, and sees what it would change; then the call waits, or says so. Another manifest",
  "needs another approval. When a call ends without an answer, the change may have been made all the same.",
  ACTION_RULES,
].join(" ");

/** `k8s_apply`: creates or changes one object. */
export function createK8sApplyTool(ports: ActionToolPorts): Tool {
  return defineTool({
    name: "k8s_apply",
    title: "Create or change an object of a cluster",
    description,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true },
    input,
    output: actionOutput,
    guarded: [...GUARDED_OBJECT, "manifest", "force_fields"],
    handle: (
      {
        cluster,
        resource,
        group = "",
        namespace = "",
        name,
        manifest,
        force_fields: forceFields,
        dry_run: dryRun = false,
        reason,
      },
      context,
    ) =>
      answerAction(ports, {
        cluster,
        asked: { verb: "apply", resource, group, namespace, name },
        options: { manifest, forceFields },
        dryRun,
        reason,
      }, context),
  });
}
