/** Error codes and denial rules of the reference. */
import { describeShape } from "@gateway/shared/config";
import { ERROR_CODES, STATUS } from "@gateway/shared/errors";
import { ROOT } from "../extract.ts";
import { API, upper } from "./openapi.ts";
import { fill, table, TEXTS, textTable } from "./table.ts";

/** The meaning and the fix of each error code, from the comments of `STATUS`. */
export function readCodes(): readonly (readonly string[])[] {
  const source = Deno.readTextFileSync(`${ROOT}shared/errors.ts`);
  return ERROR_CODES.map((name) => {
    const [, text = ""] =
      new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\s*(?://.*\\s*)?${name}: `).exec(source) ?? [];
    const [meaning = "", fix = ""] = text.replace(/\s*\n\s*\* ?/g, " ").trim().split(" Fix: ");
    return [`${STATUS[name]}`, `\`${name}\``, meaning, upper(fix)];
  });
}

export function errorsPage(): string {
  return fill("errors", {
    codes: table(["Status", "Code", "Meaning", "Fix"], readCodes()),
    problem: describeShape(API.types["Problem"] ?? {}),
    rules: textTable(["Rule", "Meaning", "Fix"], "rules"),
    shell_parse: Object.values(TEXTS["shell_parse"] ?? {}).map((reason) => `- ${reason}`).join("\n"),
    reason_codes: textTable(["Reason code", "Meaning"], "reason_codes"),
    denials: textTable(["Text", "Fix"], "denials"),
  });
}
