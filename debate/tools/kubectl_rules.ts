/**
 * The part of kubectl that a model may use: verbs that only read, with options that refer only to the
 * operator's own clusters. Neither secrets nor their names and sizes are read.
 *
 * @module
 */
import { type Argument, type ArgumentRule, checkArguments } from "./argv.ts";
import { splitCommand } from "./command_words.ts";

/** The arguments for kubectl, or the reason for a refusal. */
type CheckedKubectl =
  | { readonly kind: "arguments"; readonly verb: string; readonly args: readonly Argument[] }
  | { readonly kind: "refused"; readonly reason: string };

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._:@/-]{0,252}[A-Za-z0-9])?$/;
const SELECTOR = /^[A-Za-z0-9_./=!,() -]{1,500}$/;
const NUMBER = /^\d{1,7}$/;
const DURATION = /^\d{1,6}(?:s|m|h)$/;
const TIME = /^\d{4}-\d\d-\d\dT[0-9:.+Z-]{1,30}$/;
const PATH_EXPRESSION = /^[A-Za-z0-9_.[\]{}'"@?()=*:\\/ -]{1,500}$/;
const OUTPUT = /^(?:json|yaml|wide|name|jsonpath=[^\n]{0,1000}|custom-columns=[^\n]{0,1000})$/;
const FORMAT = /^(?:json|yaml)$/;

/** Options of every verb; they may also come before it. */
const GLOBAL_VALUES = { n: NAME, namespace: NAME, context: NAME };

const selection = {
  flags: "A all-namespaces show-labels no-headers ignore-not-found show-kind",
  values: {
    l: SELECTOR,
    selector: SELECTOR,
    "field-selector": SELECTOR,
    "sort-by": PATH_EXPRESSION,
    o: OUTPUT,
    output: OUTPUT,
    L: SELECTOR,
    "label-columns": SELECTOR,
    "chunk-size": NUMBER,
  },
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
    values: {
      c: NAME,
      container: NAME,
      l: SELECTOR,
      selector: SELECTOR,
      tail: NUMBER,
      since: DURATION,
      "since-time": TIME,
    },
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
    values: {
      "api-group": NAME,
      namespaced: /^(?:true|false)$/,
      o: /^(?:wide|name)$/,
      output: /^(?:wide|name)$/,
    },
  },
  "cluster-info": {},
  config: { flags: "minify", values: { o: FORMAT, output: FORMAT }, operands: [/^view$/], min: 1 },
};

/**
 * Checks what comes after `kubectl`.
 *
 * @param seconds how long one request to the API may take
 */
export function checkKubectl(text: string, seconds: number): CheckedKubectl {
  const split = splitCommand(text);
  if (split.kind === "refused") return split;
  const { verb, words } = takeVerb(split.words[0] === "kubectl" ? split.words.slice(1) : split.words);
  if (verb === undefined || !Object.hasOwn(VERBS, verb)) {
    return { kind: "refused", reason: `only these verbs are possible: ${Object.keys(VERBS).join(", ")}` };
  }
  const rule = VERBS[verb] ?? {};
  const checked = checkArguments(words, {
    ...rule,
    values: { ...rule.values, ...GLOBAL_VALUES },
    always: [...(rule.always ?? []), `--request-timeout=${Math.ceil(seconds)}s`],
  });
  if (checked.kind === "refused") return { kind: "refused", reason: `kubectl ${verb}: ${checked.reason}` };
  return { kind: "arguments", verb, args: [{ kind: "word", text: verb }, ...checked.args] };
}

/** The verb, and all other words in order. */
function takeVerb(
  words: readonly string[],
): { readonly verb: string | undefined; readonly words: readonly string[] } {
  let at = 0;
  while (words[at]?.startsWith("-")) at += /^(?:-n|--namespace|--context)$/.test(words[at] ?? "") ? 2 : 1;
  return { verb: words[at], words: words.toSpliced(at, 1) };
}

/** Types come first, comma-separated, or as `type/name` anywhere; a type may include its group: `secrets.v1.`. */
function refuseSecrets(operands: readonly string[]): string | undefined {
  const types = operands.flatMap((operand, index) =>
    index === 0 || operand.includes("/") ? operand.split(",").map((part) => part.split("/")[0] ?? "") : []
  );
  const isSecret = types.some((type) => /^secrets?(?:\.|$)/i.test(type));
  return isSecret ? "secrets are not shown" : undefined;
}
