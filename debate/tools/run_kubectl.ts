import * as z from "@zod/zod";
import { defineTool, describeRun, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import type { RunProgram } from "./run_program.ts";
import type { Tool } from "../engine/ports.ts";
import { type Argument, type ArgumentRule, checkArguments, shapes } from "./argv.ts";
import { splitCommand } from "./command_words.ts";

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
      const result = await runProgram({
        program: "kubectl",
        args: checkKubectl(text, call.seconds).map((argument) => argument.text),
        cwd: "/",
        // A kuberc file could add options to verbs.
        env: { ...env, KUBERC: "off", KUBECTL_KUBERC: "false" },
        signal: call.signal,
      });
      return describeRun(`kubectl ${text}`, "kubectl", result, call);
    },
  }, services);
}

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

const GLOBAL_VALUES = { n: NAME, namespace: NAME, context: NAME };

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
    values: { l: SELECTOR, selector: SELECTOR, "show-events": /^(?:true|false)$/ },
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
  const { verb, words } = takeVerb(all[0] === "kubectl" ? all.slice(1) : all);
  if (verb === undefined || !Object.hasOwn(VERBS, verb)) {
    return refuse(`only these verbs are possible: ${Object.keys(VERBS).join(", ")}`);
  }
  const rule = VERBS[verb] ?? {};
  const checked = checkArguments(words, {
    ...rule,
    values: { ...rule.values, ...GLOBAL_VALUES },
    always: [...(rule.always ?? []), `--request-timeout=${Math.ceil(seconds)}s`],
  });
  return [{ kind: "word", text: verb }, ...checked];
}

function takeVerb(
  words: readonly string[],
): { readonly verb: string | undefined; readonly words: readonly string[] } {
  let at = 0;
  while (words[at]?.startsWith("-")) at += /^(?:-n|--namespace|--context)$/.test(words[at] ?? "") ? 2 : 1;
  return { verb: words[at], words: words.toSpliced(at, 1) };
}

/** Types come first, comma-separated, or as `type/name` anywhere; a type may include its group: `secrets.v1.`. */
function refuseSecrets(operands: readonly string[]): void {
  const types = operands.flatMap((operand, index) =>
    index === 0 || operand.includes("/") ? operand.split(",").map((part) => part.split("/")[0] ?? "") : []
  );
  if (types.some((type) => /^secrets?(?:\.|$)/i.test(type))) refuse("secrets are not shown");
}
