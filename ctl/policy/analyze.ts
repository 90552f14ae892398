import { dirname, join, resolve } from "node:path";
import { finish } from "@gateway/shared/clock";
import { loadConfig } from "@gateway/shared/config";
import {
  type AccessChange,
  type CaseResult,
  decideCases,
  diffPolicies,
  isWider,
  lintPolicy,
  POLICY_TESTS,
} from "@gateway/shared/policy/analysis";
import { command } from "../kit/command.ts";
import { formatFinding } from "../kit/lint_warnings.ts";
import { type CommandResult, invalid } from "../kit/output.ts";
import { loadPolicy } from "../kit/signer_file.ts";
import { INDENT, joinNames } from "../kit/table.ts";

/** `policy lint`: allow patterns that admit more than their author meant. */
export const LINT = command({
  name: "lint",
  summary: "Find patterns that allow more than intended.",
  help: `
Examples:
  broker-ctl policy lint --config /etc/gateway/signer.json

Shows for each risky pattern a command that the policy allows and that runs other commands, writes files or reads secrets.
Also finds patterns without ^ or $ or without effect, and approvals that an option avoids. "not analyzed" means that
nothing is known about the pattern. The exit code is 1 if there is a finding.
`,
  async run({ config }, { workingFolder }) {
    const findings = lintPolicy(await loadPolicy(config, workingFolder));
    const count = findings.length === 1 ? "1 finding." : `${findings.length} findings.`;
    return {
      json: { findings },
      lines: [
        ...findings.flatMap((each) => formatFinding(each)),
        findings.length === 0 ? "No risks found." : count,
      ],
      failed: findings.length > 0,
    };
  },
});

export const WIDER = 3;

/** What a new config changes in access. */
export async function diffConfigs(
  from: string,
  to: string | undefined,
  workingFolder: string,
): Promise<CommandResult> {
  if (to === undefined) {
    throw invalid("Missing the new config", undefined, `broker-ctl policy diff ${from} NEW`);
  }
  const changes = diffPolicies(await loadPolicy(from, workingFolder), await loadPolicy(to, workingFolder));
  const wider = changes.some(isWider);
  return { json: { wider, changes }, lines: describeChanges(changes), ...wider && { exitCode: WIDER } };
}

/** The changes of access, the wider ones first, and a summary. */
export function describeChanges(changes: readonly AccessChange[]): readonly string[] {
  const wider = changes.filter(isWider).length;
  const summary = changes.length === 0
    ? "No access changes."
    : wider === 0
    ? "No access is wider."
    : `${wider} of ${changes.length} changes give wider access.`;
  const sorted = changes.toSorted((left, right) => Number(isWider(right)) - Number(isWider(left)));
  return [...sorted.flatMap(formatChange), summary];
}

const MARKS = { wider: "+", unknown: "?", narrower: "-" } as const satisfies Record<
  AccessChange["effect"],
  string
>;

function formatChange({ kind, names, effect, change, command, rule }: AccessChange): readonly string[] {
  return [
    `${MARKS[effect]} ${kind} ${joinNames(names)}: ${change}`,
    ...command === "" ? [] : [`${INDENT}for example: ${command}${rule === "" ? "" : `   (${rule})`}`],
  ];
}

/** `policy test`: requests with the decisions that the author expects. */
export const TEST = command({
  name: "test",
  summary: "Check a policy against a file of expected decisions.",
  takes: {
    "[file]": "JSONC file of cases (default: policy_tests of the config, or policy_tests.jsonc next to it)",
    "--junit": "print JUnit XML",
  },
  help: `
Examples:
  broker-ctl policy test
  broker-ctl policy test policy_tests.jsonc --config /etc/gateway/signer.json --json

The file has the form { "cases": [{ "host": "web01", "command": "id", "expect": "approval" }] }. "expect" is allow, deny
or approval. Other keys: cluster instead of host, rule, caller, end_user_groups, sudo, sudo_user.
Runs without a signer. The exit code is 1 if a case fails.
`,
  async run({ config = "signer.json", file, junit = false }, { workingFolder }) {
    const policy = await loadPolicy(config, workingFolder);
    const nextTo = join(dirname(config), "policy_tests.jsonc");
    const path = resolve(workingFolder, file ?? (policy.config.policy_tests || nextTo));
    const { cases } = await loadConfig({ path, ...POLICY_TESTS });
    const results = finish(decideCases(policy, cases));
    const failed = results.filter(({ failure }) => failure !== "").length;
    const counts = { passed: results.length - failed, failed };
    return {
      json: { ...counts, results },
      lines: junit ? formatJunit(results, failed) : [
        ...results.map(({ title, failure }) =>
          failure === "" ? `ok    ${title}` : `FAIL  ${title}: ${failure}`
        ),
        `${counts.passed} passed, ${failed} failed`,
      ],
      failed: failed > 0,
    };
  },
});

function formatJunit(results: readonly CaseResult[], failed: number): readonly string[] {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuite name="policy" tests="${results.length}" failures="${failed}">`,
    ...results.map(({ title, failure }) => {
      const content = failure === "" ? "" : `<failure message="${escapeXml(failure)}"/>`;
      return `  <testcase name="${escapeXml(title)}">${content}</testcase>`;
    }),
    "</testsuite>",
  ];
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (each) => ENTITIES[each] ?? each);
}
