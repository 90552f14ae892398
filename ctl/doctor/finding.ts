/** What is found of one thing. */
export interface Finding {
  readonly level: "pass" | "warn" | "unknown" | "fail";
  /** The file that it is about; empty: none. */
  readonly file: string;
  /** What was looked at, and what is wrong with it. */
  readonly check: string;
  /** How it is mended; empty where nothing is wrong. */
  readonly fix: string;
}

/** Something that is as it should be. */
export function pass(file: string, check: string): Finding {
  return { level: "pass", file, check, fix: "" };
}

/** Something that an operator has to decide on. */
export function warn(file: string, check: string, fix: string): Finding {
  return { level: "warn", file, check, fix };
}

export function fail(file: string, check: string, fix: string): Finding {
  return { level: "fail", file, check, fix };
}

/** Something that could not be looked at: nobody knows whether it is as it should be. */
export function unknown(file: string, check: string, fix: string): Finding {
  return { level: "unknown", file, check, fix };
}

/** How many there are of each level. */
export function countFindings(findings: readonly Finding[]): Readonly<Record<Finding["level"], number>> {
  const count = (level: Finding["level"]) => findings.filter((each) => each.level === level).length;
  return { pass: count("pass"), warn: count("warn"), unknown: count("unknown"), fail: count("fail") };
}

/** For a terminal: what fails first, then what is not known, then what is warned of; what is well is only counted. */
export function formatFindings(findings: readonly Finding[]): readonly string[] {
  const shown = (["fail", "unknown", "warn"] as const).flatMap((level) =>
    findings.filter((each) => each.level === level).flatMap(({ file, check, fix }) => [
      `[${level.toUpperCase()}] ${file === "" ? "" : `${file}: `}${check}`,
      `       fix: ${fix}`,
    ])
  );
  const { pass, warn, unknown, fail } = countFindings(findings);
  const verdict = fail > 0
    ? "something defeats a promise: mend what fails"
    : unknown > 0
    ? "not everything could be looked at: run it where it can"
    : warn > 0
    ? "nothing fails; look at the warnings"
    : "nothing is wrong";
  return [...shown, `${pass} PASS, ${warn} WARN, ${unknown} UNKNOWN, ${fail} FAIL`, verdict];
}
