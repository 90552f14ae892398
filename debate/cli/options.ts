import { type Command, InvalidArgumentError } from "commander";

/** An option that may be given once. If its value is empty or looks like an option, the value was forgotten. */
export function once(value: string, previous: string | undefined): string {
  checkValue(value);
  if (previous !== undefined) throw new InvalidArgumentError("It is given twice.");
  return value;
}

export function repeated(value: string, previous: readonly string[] | undefined): readonly string[] {
  checkValue(value);
  return [...previous ?? [], value];
}

export function countOf(min: number, max: number): (value: string) => number {
  return (value) => {
    const count = /^\d{1,15}$/.test(value) ? Number(value) : NaN;
    if (count >= min && count <= max) return count;
    throw new InvalidArgumentError(`Expected a number from ${min} to ${max}.`);
  };
}

export function shareOf(value: string): number {
  const share = /^(?:\d+(?:\.\d*)?|\.\d+)$/.test(value) ? Number(value) : NaN;
  if (share <= 1) return share;
  throw new InvalidArgumentError("Expected a number from 0 to 1.");
}

/** Adds `--json`, which every command with a result for programs has. */
export function addJson(command: Command, what: string): Command {
  return command.option("--json", `print ${what} as one JSON object`);
}

function checkValue(value: string): void {
  if (value.trim() === "") throw new InvalidArgumentError("It is empty.");
  if (value.startsWith("-") && value !== "-") {
    throw new InvalidArgumentError(
      "A value is missing before it; write ./-name for a file whose name starts with a dash.",
    );
  }
}
