import { basename } from "node:path";

export interface Finding {
  readonly level: "pass" | "warn" | "unknown" | "fail";
  readonly file: string;
  readonly check: string;
  readonly fix: string;
}

/** A finding whose file {@linkcode about} adds. */
export type Found = Omit<Finding, "file"> & {
  /** True: a lab may stay like this. `--level lab` counts the finding as passed. */
  readonly isPosture?: true;
};

export const LEVELS = ["production", "lab"] as const;
type Level = typeof LEVELS[number];

export const postureOf = (found: Found): Found => ({ ...found, isPosture: true });

/** The fix for a check that needs another account. */
export const AS_ROOT = "run doctor as the service's account or root: sudo broker-ctl doctor --config FILE";
export const SYNC_CLOCK = "run a time service on both machines: timedatectl set-ntp true";

const create = (level: Finding["level"]) => (check: string, fix: string): Found => ({ level, check, fix });

export const pass = (check: string): Found => ({ level: "pass", check, fix: "" });
export const warn = create("warn");
export const fail = create("fail");
export const unknown = create("unknown");

export function about(file: string, found: readonly Found[], wanted: Level): readonly Finding[] {
  return found.map(({ level, check, fix, isPosture = false }) =>
    isPosture && wanted === "lab" ? { ...pass(check), file } : { level, file, check, fix }
  );
}

export function countFindings(findings: readonly Finding[]): Readonly<Record<Finding["level"], number>> {
  const count = (level: Finding["level"]) => findings.filter((each) => each.level === level).length;
  return { pass: count("pass"), warn: count("warn"), unknown: count("unknown"), fail: count("fail") };
}

/** Findings with the same fix, such as those of the policy linter. */
const MOST_SHOWN = 5;

/** Failures first, then unknown results, then warnings; passed checks are only counted. */
export function formatFindings(findings: readonly Finding[]): readonly string[] {
  const files = [...new Set(findings.map(({ file }) => file))];
  // The path is needed only if two files have the same name.
  const nameOf = (file: string) =>
    files.filter((other) => basename(other) === basename(file)).length > 1 ? file : basename(file);
  const shown = (["fail", "unknown", "warn"] as const).flatMap((level) => {
    const found = findings.filter((each) => each.level === level);
    return [...Map.groupBy(found, ({ file, fix }) => `${file} ${fix}`).values()].flatMap((same) => [
      ...same.slice(0, MOST_SHOWN).map(({ file, check }) =>
        `[${level.toUpperCase()}] ${nameOf(file)}: ${check}`
      ),
      ...same.length > MOST_SHOWN ? [`       and ${same.length - MOST_SHOWN} more`] : [],
      `       fix: ${same[0]?.fix}`,
    ]);
  });
  const { pass, warn, unknown, fail } = countFindings(findings);
  const checks = (count: number) => count === 1 ? "1 check" : `${count} checks`;
  const verdict = fail > 0
    ? `${checks(fail)} failed. Fix the items marked FAIL.`
    : unknown > 0
    ? `${checks(unknown)} could not run. Run doctor with access to these items.`
    : warn > 0
    ? "No check failed. Review the warnings."
    : "All checks passed.";
  return [...shown, `${pass} PASS, ${warn} WARN, ${unknown} UNKNOWN, ${fail} FAIL`, verdict];
}
