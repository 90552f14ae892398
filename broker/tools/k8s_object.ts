import * as z from "@zod/zod";
import { GUARDED_OBJECT, OBJECT_ARGUMENTS } from "./k8s_arguments.ts";
import { actionOutput, type ActionToolPorts, answerAction } from "./k8s_result.ts";
import { defineTool, type Tool } from "./tool.ts";

/** A tool that does something with one object, and needs no more than to know which. */
export function defineObjectTool(
  ports: ActionToolPorts,
  verb: "get" | "delete",
  about: Pick<Tool, "name" | "title" | "description" | "annotations">,
): Tool {
  return defineTool({
    ...about,
    input: z.strictObject(OBJECT_ARGUMENTS),
    output: actionOutput,
    guarded: GUARDED_OBJECT,
    handle: (
      { cluster, resource, group = "", namespace = "", name, dry_run: dryRun = false, reason },
      context,
    ) =>
      answerAction(ports, {
        cluster,
        asked: { verb, resource, group, namespace, name },
        options: {},
        dryRun,
        reason,
      }, context),
  });
}
