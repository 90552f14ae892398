import * as z from "@zod/zod";
import { type Argument, type ArgumentRule, checkArguments, shapes, splitCommand } from "./argv.ts";
import { defineTool, describeRun, timeoutArgument } from "./define_tool.ts";
import { refuse } from "./run_program.ts";
import { pickEnv } from "./program_tools.ts";

export const runKubectl = defineTool({
  name: "run_kubectl",
  description:
    "Runs kubectl, read-only: get, describe, logs, top, events, explain, version, api-resources, cluster-info, config view. " +
    "Secrets are not shown; output is not followed.",
  schema: z.strictObject({
    kubectl_args: z.string().min(1).describe("the arguments after kubectl, for instance: get pods -n prod"),
    timeout: timeoutArgument(20),
  }),
  async run({ kubectl_args: text }, call) {
    const env = pickEnv(call, "HOME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT");
    const result = await call.ports.runProgram({
      program: "kubectl",
      args: checkKubectl(text, call.seconds).map((argument) => argument.text),
      cwd: "/",
      // A kuberc file could add options to verbs.
      env: { ...env, KUBERC: "off", KUBECTL_KUBERC: "false" },
      signal: call.signal,
    });
    return describeRun(`kubectl ${text}`, result, call);
  },
});

/**
 * Only verbs that read, with options that refer to the operator's own clusters. Secrets are never read, not
 * even their names.
 */

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._:@/-]{0,252}[A-Za-z0-9])?$/;
const SELECTOR = /^[A-Za-z0-9_./=!,() -]{1,500}$/;
const NUMBER = /^\d{1,7}$/;
const DURATION = /^\d{1,6}(?:s|m|h)$/;
const TIME = /^\d{4}-\d\d-\d\dT[0-9:.+Z-]{1,30}$/;
const PATH_EXPRESSION = /^[A-Za-z0-9_.[\]{}'"@?()=*:\\/ -]{1,500}$/;
const OUTPUT = /^(?:json|yaml|wide|name|jsonpath=[^\n]{0,1000}|custom-columns=[^\n]{0,1000})$/;
const FORMAT = /^(?:json|yaml)$/;

const selection = {
  flags: "A all-namespaces show-labels no-headers ignore-not-found show-kind",
  values: shapes([SELECTOR, "l selector field-selector L label-columns"], [PATH_EXPRESSION, "sort-by"], [
    OUTPUT,
    "o output",
  ], [NUMBER, "chunk-size"]),
};

const VERBS: Readonly<Record<string, ArgumentRule>> = {
  get: { ...selection, operands: [/^[A-Za-z0-9.,/_:-]{1,500}$/], rest: NAME, min: 1, check: refuseSecrets },
  describe: {
    flags: "A all-namespaces",
    values: shapes([SELECTOR, "l selector"], [/^(?:true|false)$/, "show-events"]),
    operands: [/^[A-Za-z0-9.,/_:-]{1,500}$/],
    rest: NAME,
    min: 1,
    check: refuseSecrets,
  },
  logs: {
    flags: "p previous timestamps all-containers prefix ignore-errors",
    values: shapes([NAME, "c container"], [SELECTOR, "l selector"], [NUMBER, "tail"], [DURATION, "since"], [
      TIME,
      "since-time",
    ]),
    operands: [NAME, NAME],
    always: ["--limit-bytes=262144"],
    unless: { options: ["tail", "since", "since-time"], add: ["--tail=500"] },
  },
  top: {
    flags: "A all-namespaces containers no-headers sum",
    values: { l: SELECTOR, selector: SELECTOR, "sort-by": /^(?:cpu|memory)$/ },
    operands: [/^(?:pods?|po|nodes?|no)$/],
    rest: NAME,
    min: 1,
  },
  events: {
    flags: "A all-namespaces no-headers",
    values: { for: NAME, types: /^[A-Za-z,]{1,100}$/, o: FORMAT, output: FORMAT },
  },
  explain: { flags: "recursive", values: { "api-version": NAME }, operands: [NAME], min: 1 },
  version: { flags: "client", values: { o: FORMAT, output: FORMAT } },
  "api-resources": {
    flags: "no-headers cached",
    values: shapes([NAME, "api-group"], [/^(?:true|false)$/, "namespaced"], [/^(?:wide|name)$/, "o output"]),
  },
  "cluster-info": {},
  config: { flags: "minify", values: { o: FORMAT, output: FORMAT }, operands: [/^view$/], min: 1 },
};

export function checkKubectl(text: string, seconds: number): readonly Argument[] {
  const all = splitCommand(text);
  const given = all[0] === "kubectl" ? all.slice(1) : all;
  let at = 0;
  while (given[at]?.startsWith("-")) at += /^(?:-n|--namespace|--context)$/.test(given[at] ?? "") ? 2 : 1;
  const verb = given[at];
  if (verb === undefined || !Object.hasOwn(VERBS, verb)) {
    return refuse(`only these verbs are possible: ${Object.keys(VERBS).join(", ")}`);
  }
  const rule = VERBS[verb] ?? {};
  const checked = checkArguments(given.toSpliced(at, 1), {
    ...rule,
    values: { ...rule.values, ...shapes([NAME, "n namespace context"]) },
    always: [...(rule.always ?? []), `--request-timeout=${Math.ceil(seconds)}s`],
  });
  return [{ kind: "word", text: verb }, ...checked];
}

/** Types come first, comma-separated, or as `type/name` anywhere; a type may include its group: `secrets.v1.`. */
function refuseSecrets(operands: readonly string[]): void {
  const types = operands.flatMap((operand, index) =>
    index === 0 || operand.includes("/") ? operand.split(",").map((part) => part.split("/")[0] ?? "") : []
  );
  if (types.some((type) => /^secrets?(?:\.|$)/i.test(type))) refuse("secrets are not shown");
}
