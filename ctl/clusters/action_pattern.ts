import { AppError } from "@gateway/shared/errors";
import { CORE_RESOURCES, K8S_VERBS, rulePattern } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { readRule } from "./entry.ts";

/**
 * The pattern of the actions `<verbs> <resources> <namespaces>/<names>`, as a signer makes it of a rule.
 *
 * @throws {AppError} `invalid_request` for what can't be read, or would match nothing
 */
export function actionPattern(text: string): string {
  // What a grant is for is said in full: what a rule leaves out is everything.
  if (!/^\s*\S+\s+\S+\s+[^\s/]+\/[^\s/]+\s*$/.test(text)) {
    throw new AppError(
      "invalid_request",
      `Cannot read action ${quoteText(text)}: expected "<verbs> <resources> <namespaces>/<names>"`,
    );
  }
  const rule = readRule(`allow ${text}`);
  const foreign = rule.verbs?.find((verb) =>
    verb !== "*" && !(K8S_VERBS as readonly string[]).includes(verb)
  );
  if (foreign !== undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot grant ${quoteText(foreign)}: expected ${K8S_VERBS.join(", ")} or *`,
    );
  }
  const bare = rule.resources?.find((name) =>
    name !== "*" && !name.includes(".") && !CORE_RESOURCES.has(name)
  );
  if (bare !== undefined) {
    throw new AppError(
      "invalid_request",
      `Cannot grant ${
        quoteText(bare)
      }: not a built-in resource; write one of the cluster's own with its group`,
    );
  }
  return rulePattern(rule, CORE_RESOURCES);
}
