/** The members of an audit record, from the encoder and the comments of its input. */
import {
  type AuditEntry,
  createAuditKey,
  encodeRecord,
  GENESIS,
  seal,
} from "../../../shared/audit/record.ts";
import { ROOT } from "../extract.ts";
import { readSource, structsOf } from "./source.ts";
import { fill, table, TEXTS, textTable } from "./table.ts";

type Line = Readonly<Record<string, unknown>>;

const ENTRY = structsOf(readSource("shared/audit/")).find(({ name }) => name === "AuditEntry");
const FIELDS = new Map(ENTRY?.fields.map((field) => [field.name.replace("?", ""), field]));
const KEY = createAuditKey(new Uint8Array(32));
const valueOf = (type: string) => ({ bigint: 1n, boolean: true, string: "x" })[type] ?? 1;
const lineOf = (entry: AuditEntry) =>
  seal(encodeRecord(entry, { time: "2026-01-02T03:04:05Z" }), GENESIS, KEY).line;

/** A record with all members. */
export const FULL: Line & { readonly ext: Line } = JSON.parse(
  lineOf(Object.fromEntries([...FIELDS].map(([name, { type }]) => [name, valueOf(type)])) as never),
);
const EMPTY: Line = JSON.parse(lineOf({ outcome: "" }));

/** Lines of audit logs of real services, one of each outcome. */
export const EXAMPLES: readonly string[] = Deno.readTextFileSync(
  `${ROOT}tests/documents/reference/audit_examples.jsonl`,
).trim().split("\n");

function memberRows(members: Line): readonly (readonly string[])[] {
  return Object.entries(members).map(([name, value]) => [
    `\`${name}\``,
    typeof value === "number" ? "integer" : typeof value,
    name in EMPTY ? "always" : "if not empty",
    FIELDS.get(name)?.about ?? TEXTS["added"]?.[name] ?? "",
  ]);
}

export function auditPage(): string {
  return fill("audit-record", {
    members: table(["Member", "Type", "Present", "Meaning"], memberRows(FULL)),
    ext: table(["Member", "Type", "Meaning"], memberRows(FULL.ext).map((row) => row.toSpliced(2, 1))),
    outcomes: textTable(["Outcome", "Writer", "Meaning"], "outcomes"),
    examples: EXAMPLES.map((line) => `\`\`\`json\n${line}\n\`\`\``).join("\n\n"),
  });
}
