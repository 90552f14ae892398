/**
 * `run_kubectl`: reads from a Kubernetes cluster.
 *
 * @module
 */
import * as z from "@zod/zod";
import { defineTool, timeoutArgument, ToolFailure, type ToolServices } from "./define_tool.ts";
import { checkKubectl } from "./kubectl_rules.ts";
import { describeRun } from "./program_finding.ts";
import type { RunProgram } from "./run_program.ts";
import type { Tool } from "../engine/tool.ts";

const schema = z.strictObject({
  kubectl_args: z.string().min(1).describe("the arguments after kubectl, for instance: get pods -n prod"),
  timeout: timeoutArgument(20),
});

/**
 * The tool.
 *
 * @param env the variables by which kubectl finds its clusters: `HOME`, `KUBECONFIG`, and those of a pod
 */
export function createRunKubectl(
  env: Readonly<Record<string, string>>,
  runProgram: RunProgram,
  services: ToolServices,
): Tool {
  return defineTool({
    name: "run_kubectl",
    description:
      "Runs kubectl, read-only: get, describe, logs, top, events, explain, version, api-resources, cluster-info, config view. " +
      "Secrets are not shown; output is not followed.",
    schema,
    async run({ kubectl_args: text }, call) {
      const checked = checkKubectl(text, call.seconds);
      if (checked.kind === "refused") throw new ToolFailure(checked.reason);
      const result = await runProgram({
        program: "kubectl",
        args: checked.args.map((argument) => argument.text),
        cwd: "/",
        // A kuberc file could add options to verbs.
        env: { ...env, KUBERC: "off", KUBECTL_KUBERC: "false" },
        signal: call.signal,
      });
      return describeRun(`kubectl ${text}`, "kubectl", result, call);
    },
  }, services);
}
