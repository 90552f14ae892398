import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import {
  createLineWriter,
  EXIT_CODES,
  exitCodeOf,
  findById,
  HintedError,
  RemoteError,
  writeError,
  writeResult,
} from "./output.ts";
import { splitPatterns } from "./entries.ts";
import {
  ageCell,
  diffLines,
  formatRow,
  formatTable,
  joinNames,
  type OutputOptions,
  shortenIds,
  shortenText,
  timeCell,
} from "./table.ts";
import { formatDuration } from "@gateway/shared/text";
import { parseDuration } from "./values.ts";

function capture() {
  const written = { out: "", err: "" };
  const terminal = {
    out: (text: string) => void (written.out += text),
    err: (text: string) => void (written.err += text),
  };
  return { written, terminal };
}

Deno.test("writeResult() escapes control characters in lines", async () => {
  const { written, terminal } = capture();
  await writeResult(terminal, { output: "table" }, { json: {}, lines: ["a\x1b[2Jb", "c\nd"] });
  assert.deepEqual(written, { out: "a\\x1b[2Jb\nc\\x0ad\n", err: "" });
});

Deno.test("writeResult() writes one JSON object with exact numbers", async () => {
  const { written, terminal } = capture();
  await writeResult(terminal, { output: "json" }, { json: { serial: 18446744073709551615n }, lines: ["x"] });
  assert.deepEqual(written, { out: '{"serial":18446744073709551615}\n', err: "" });
});

Deno.test("writeResult() and writeError() write the same value as JSON without control characters", async () => {
  const value = { text: "a\x1b[2J\x7f\x9b\u202e\u{e0001}\u2028b" };
  const { written, terminal } = capture();
  await writeResult(terminal, { output: "json" }, { json: value, lines: [] });
  writeError(terminal, { output: "json" }, new AppError("conflict", value.text));
  assert.match(written.out + written.err, /^(?:\P{C}|\n)*$/u);
  const yaml = capture();
  await writeResult(yaml.terminal, { output: "yaml" }, { json: { "k\x9b": ["\u202ea\x1b"] }, lines: [] });
  assert.equal(yaml.written.out, '"k\\u009b":\n  - "\\u202ea\\e"\n');
});

Deno.test("createLineWriter() escapes control characters, in JSON as JSON", () => {
  for (
    const { json, line } of [
      { json: false, line: '{\\x09"a":"\\x9b"}\n' },
      { json: true, line: '{ "a":"\\u009b"}\n' },
    ]
  ) {
    const { written, terminal } = capture();
    const writer = createLineWriter(terminal, { json });
    writer.line('{\t"a":"\x9b"}');
    writer.note("\x1b");
    assert.deepEqual([writer.json, written], [json, { out: line, err: "\\x1b\n" }]);
  }
});

Deno.test.each<{ name: string; error: unknown; text: string; json: object }>([
  {
    name: "an error",
    error: new AppError("invalid_config", "Cannot load\n  two things \x1b[1m"),
    text: "error: Cannot load\n  two things \\x1b[1m\n",
    json: { code: "invalid_config", message: "Cannot load\n  two things \x1b[1m", hint: "" },
  },
  {
    name: "an error with a hint",
    error: new HintedError(new AppError("conflict", "it exists"), "--force"),
    text: "error: it exists\nfix: --force\n",
    json: { code: "conflict", message: "it exists", hint: "--force" },
  },
  {
    name: "a permission error of the operating system",
    error: new Deno.errors.PermissionDenied("no entry"),
    text: "error: no entry\n",
    json: { code: "internal", message: "no entry", hint: "" },
  },
  {
    name: "a full disk",
    error: new Error("No space left on device (os error 28)"),
    text: "error: No space left on device (os error 28)\n",
    json: { code: "internal", message: "No space left on device (os error 28)", hint: "" },
  },
  {
    name: "a full disk as reported by Node's API",
    error: Object.assign(new Error("ENOSPC: no space left on device, write"), { syscall: "write" }),
    text: "error: ENOSPC: no space left on device, write\n",
    json: { code: "internal", message: "ENOSPC: no space left on device, write", hint: "" },
  },
  {
    name: "a defect",
    error: new TypeError("oops"),
    text: "error: TypeError: oops\nfix: report this bug in broker-ctl\n",
    json: { code: "internal", message: "TypeError: oops", hint: "report this bug in broker-ctl" },
  },
])("writeError() shows $name as text and as one JSON object", ({ error, text, json }) => {
  const plain = capture();
  writeError(plain.terminal, { output: "table" }, error);
  assert.deepEqual(plain.written, { out: "", err: text });
  const object = capture();
  writeError(object.terminal, { output: "json" }, error);
  assert.equal(object.written.out, "");
  assert.deepEqual(JSON.parse(object.written.err), json);
});

Deno.test("exitCodeOf() returns 2 for a usage error and 1 for a failure", () => {
  assert.equal(exitCodeOf(new AppError("invalid_request", "x")), EXIT_CODES.usage);
  assert.equal(exitCodeOf(new HintedError(new AppError("invalid_request", "x"), "y")), EXIT_CODES.usage);
  assert.equal(exitCodeOf(new RemoteError(new AppError("invalid_request", "x"), "y")), EXIT_CODES.failed);
  assert.equal(exitCodeOf(new AppError("conflict", "x")), EXIT_CODES.failed);
  assert.equal(exitCodeOf(new Error("x")), EXIT_CODES.failed);
});

const LINES = ["a", "b", "c", "d", "e", "f", "g", "h"];

Deno.test.each<{ name: string; after: string[]; diff: string[] }>([
  { name: "no lines if the texts are equal", after: LINES, diff: [] },
  {
    name: "a changed line",
    after: LINES.with(4, "E"),
    diff: ["--- f", "+++ f", "@@ -2,7 +2,7 @@", " b", " c", " d", "-e", "+E", " f", " g", " h"],
  },
  {
    name: "an added line",
    after: [...LINES, "h"],
    diff: ["--- f", "+++ f", "@@ -6,3 +6,4 @@", " f", " g", " h", "+h"],
  },
  {
    name: "a removed line",
    after: LINES.slice(1),
    diff: ["--- f", "+++ f", "@@ -1,4 +1,3 @@", "-a", " b", " c", " d"],
  },
])("diffLines() shows $name", ({ after, diff }) => {
  assert.deepEqual(diffLines(LINES.join("\n"), after.join("\n"), "f"), diff);
});

Deno.test.each([
  { name: "a significant space at the end", values: ["^ls "], patterns: ["^ls "] },
  { name: "a space at the beginning", values: [" --force"], patterns: [" --force"] },
  { name: "an escaped space", values: ["^ls\\ "], patterns: ["^ls\\ "] },
  { name: "a space after an escaped dollar", values: ["^echo \\$ "], patterns: ["^echo \\$ "] },
  { name: "spaces around each of several patterns", values: ["^ls ", "^w "], patterns: ["^ls ", "^w "] },
  { name: "a comma in braces", values: ["^a{1,3}$,^b"], patterns: ["^a{1,3}$", "^b"] },
  { name: "a comma in parentheses", values: ["^(a,(b)|c,d)$,^b"], patterns: ["^(a,(b)|c,d)$", "^b"] },
  { name: "a comma in a class", values: ["^[a,b]$,^b"], patterns: ["^[a,b]$", "^b"] },
  {
    name: "a character class with brackets and parentheses",
    values: ["^[](,]$,^[^])]$,^[[:alpha:],]$,^b"],
    patterns: ["^[](,]$", "^[^])]$", "^[[:alpha:],]$", "^b"],
  },
  { name: "an escaped comma", values: ["^a\\,b$,^\\(,^c"], patterns: ["^a\\,b$", "^\\(", "^c"] },
  { name: "a quoted comma", values: ["^\\Qa,(\\E$,^b"], patterns: ["^\\Qa,(\\E$", "^b"] },
])("splitPatterns() keeps $name", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test.each([
  { values: ["^ls,^cat"], patterns: ["^ls", "^cat"] },
  { values: ["ls,cat", "^w$"], patterns: ["ls", "cat", "^w$"] },
  { values: ["^ls$,cat"], patterns: ["^ls$", "cat"] },
])("splitPatterns() splits $values at commas", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test.each(["^a,b$", "^a, b$", "^a,b,^c$"])(
  "splitPatterns() rejects %s, because a split would allow more",
  (value) => assert.throws(() => splitPatterns([value], "--allow"), /Cannot split --allow/),
);

Deno.test.each([
  {
    name: "blanks between whole patterns",
    values: ["^id$, ^w$ ,^df -h$"],
    patterns: ["^id$", "^w$", "^df -h$"],
  },
  { name: "empty values", values: ["", " "], patterns: [] },
])("splitPatterns() removes $name", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test("formatTable() makes each column as wide as its widest cell", () => {
  assert.deepEqual(formatTable(["ID", "HOST"], [["a", "web01"], ["longer", "b"]]), [
    "ID      HOST",
    "a       web01",
    "longer  b",
  ]);
});

Deno.test("formatTable() measures text by its width in a terminal", () => {
  const cells = ["\x1b[2J", "😀", "日本", "한", "é", "e\u0301", "ｗ"];
  assert.deepEqual(formatTable(["A", "B"], cells.map((cell) => [cell, "1"])), [
    "A        B",
    "\\x1b[2J  1",
    "😀       1",
    "日本     1",
    "한       1",
    "é        1",
    "e\u0301        1",
    "ｗ       1",
  ]);
});

Deno.test("formatTable() accepts more rows than a function call can have arguments", () => {
  assert.equal(formatTable(["A"], Array.from({ length: 200_000 }, () => ["b"])).length, 200_001);
});

Deno.test("formatRow() shifts the following cells after a wide cell", () => {
  assert.equal(formatRow(["a", "b", "c"], [3, 1]), "a    b  c");
  assert.equal(formatRow(["abcdef", "b"], [3, 5]), "abcdef  b");
});

const LONGEST = "a".repeat(400);

Deno.test.each([
  { name: "nothing", text: "" },
  { name: "a text of the maximum length", text: LONGEST },
  { name: "a maximum number of characters with two code units each", text: "😀".repeat(400) },
])("shortenText() keeps $name unchanged", ({ text }) => {
  assert.equal(shortenText(text), text);
});

Deno.test("shortenText() truncates long text between two characters and reports it", () => {
  assert.equal(shortenText("😀".repeat(401)), `${"😀".repeat(400)}…[first 400 of 401 characters]`);
  assert.equal(shortenText(`${LONGEST}bc`), `${LONGEST}…[first 400 of 402 characters]`);
});

Deno.test("joinNames() shows at most eight names and the total", () => {
  assert.equal(joinNames(["a", "b"]), "a,b");
  assert.equal(joinNames([..."abcdefgh"]), "a,b,c,d,e,f,g,h");
  assert.equal(joinNames([..."abcdefghi"]), "a,b,c,d,e,f,g,h,…[first 8 of 9]");
});

Deno.test.each<{ text: string; seconds: number; shown: string }>([
  { text: "2h", seconds: 7200, shown: "2h0m0s" },
  { text: "30m", seconds: 1800, shown: "30m0s" },
  { text: "2d", seconds: 172_800, shown: "48h0m0s" },
  { text: "1d12h", seconds: 129_600, shown: "36h0m0s" },
  { text: "90s", seconds: 90, shown: "1m30s" },
  { text: "1h30m", seconds: 5400, shown: "1h30m0s" },
  { text: "1.5h", seconds: 5400, shown: "1h30m0s" },
  { text: "30m1h", seconds: 5400, shown: "1h30m0s" },
  { text: "500ms500000us", seconds: 1, shown: "1s" },
  { text: ".5m", seconds: 30, shown: "30s" },
  { text: "1.h", seconds: 3600, shown: "1h0m0s" },
  { text: "2562047h", seconds: 9_223_369_200, shown: "2562047h0m0s" },
])("parseDuration() reads $text, and formatDuration() shows it as $shown", ({ text, seconds, shown }) => {
  assert.equal(parseDuration(text), seconds);
  assert.equal(formatDuration(seconds * 1000), shown);
});

Deno.test.each<{ name: string; text: string }>([
  { name: "nothing", text: "" },
  { name: "a number without unit", text: "60" },
  { name: "a unit without number", text: "h" },
  { name: "a dot without digits", text: ".h" },
  { name: "weeks", text: "1w" },
  { name: "a sign", text: "+1h" },
  { name: "a negative time", text: "-1h" },
  { name: "a space", text: "1h 30m" },
  { name: "an exponent", text: "1e3s" },
  { name: "digits of another script", text: "١h" },
  { name: "no time at all", text: "0s" },
  { name: "less than a second", text: "999ms" },
  { name: "a second and a part", text: "1.5s" },
  { name: "more than 64 bits of nanoseconds", text: "2562048h" },
  { name: "very many digits", text: `${"9".repeat(400)}h` },
])("parseDuration() rejects $name", ({ text }) => {
  assert.throws(() => parseDuration(text), { code: "invalid_request", message: /^Cannot read duration "/ });
});

const TABLE = {
  none: "(none)",
  columns: ["ID", "AGE", "+RULE", "COMMAND"],
  rows: [
    [
      { text: "0123", wide: "0123456789" },
      { text: "3m ago", role: "ok" as const },
      "r",
      "systemctl restart nginx",
    ],
    ["語\x1b", "", "", "id"],
  ],
};

Deno.test.each<[name: string, options: OutputOptions, columns: number | undefined, out: string]>([
  [
    "a table without the wide columns",
    { output: "table" },
    undefined,
    "ID      AGE     COMMAND\n0123    3m ago  systemctl restart nginx\n語\\x1b  —       id\n",
  ],
  [
    "a table that fits a terminal",
    { output: "table", headers: false },
    30,
    "0123    3m ago  systemctl res…\n語\\x1b  —       id\n",
  ],
  [
    "a last column that is shortened before the others, but not below its minimum",
    { output: "table" },
    24,
    "ID      AGE     COMMAND\n0123    3m ago  systemc…\n語\\x1b  —       id\n",
  ],
  [
    "all columns in their complete form",
    { output: "wide" },
    30,
    "ID          AGE     RULE  COMMAND\n0123456789  3m ago  r     systemctl restart nginx\n語\\x1b      —       —     id\n",
  ],
  ["names", { output: "name" }, 30, "0123456789\n語\\x1b\n"],
  ["YAML", { output: "yaml" }, 30, "serial: 7\nlist:\n  - a\n"],
  [
    "colors around cells",
    { output: "table", headers: false, color: true },
    undefined,
    "\x1b[1m0123  \x1b[0m  \x1b[32m3m ago\x1b[0m  systemctl restart nginx\n\x1b[1m語\\x1b\x1b[0m  —       id\n",
  ],
])("writeResult() writes %s", async (_name, options, columns, out) => {
  const { written, terminal } = capture();
  await writeResult({ ...terminal, columns }, options, { json: { serial: 7, list: ["a"] }, lines: [TABLE] });
  assert.equal(written.out, out);
});

Deno.test("writeResult() colors results in their columns and the labels of lines, and no other text", async () => {
  const { written, terminal } = capture();
  const rows = [["web01", "web01", "policy-denied"], ["web02", "denied", "issued\x1b[2m"]];
  const table = { none: "", columns: ["HOST", "WHAT", "RESULT"], rows };
  const lines = ["[FAIL] a: OK", "Decision:  ALLOWED (x)", "no request", "warning: DENIED", table];
  await writeResult(terminal, { output: "table", headers: false, color: true }, { json: {}, lines });
  const [bad, ok, warn, name] = [31, 32, 35, 1].map((code) => (text: string) =>
    `\x1b[${code}m${text}\x1b[0m`
  );
  assert.deepEqual(written.out.split("\n"), [
    ...[
      `[${bad?.("FAIL")}] a: OK`,
      `Decision:  ${ok?.("ALLOWED")} (x)`,
      "no request",
      `${warn?.("warning")}: DENIED`,
    ],
    ...[
      `${name?.("web01")}  web01   ${bad?.("policy-denied")}`,
      `${name?.("web02")}  denied  issued\\x1b[2m`,
      "",
    ],
  ]);
});

Deno.test("timeCell() shows the distance from now, and the time in -o wide", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  const shown = [0, 59, 119, 120, 7_199, 7_200, 172_799, 172_800, -58].map((seconds) =>
    timeCell(new Date(now - seconds * 1000).toISOString(), now).text
  );
  assert.deepEqual(shown, [
    ...["0s ago", "59s ago", "119s ago", "2m ago", "119m ago", "2h ago", "47h ago", "2d ago", "in 58s"],
  ]);
  assert.deepEqual(timeCell("never", now), { text: "never" });
  const years = ["2027-12-30", "2036-01-01"].map((day) => timeCell(`${day}T00:00:00Z`, now).text);
  assert.deepEqual(years, ["in 728d", "in 10y"]);
  assert.equal(ageCell("2025-12-31T23:57:00Z", now).text, "3m");
});

Deno.test("findById() finds a unique prefix of the IDs that shortenIds() shows", () => {
  const ids = ["aaaaaaaaaaaa1", "aaaaaaaaaaaa2", "b"];
  assert.deepEqual(ids.map((id) => shortenIds(ids)(id).text), ids);
  assert.equal(shortenIds(["0123456789", "1"])("0123456789").text, "01234567");
  assert.equal(findById("b", ids, "grant", "x"), "b");
  assert.equal(findById("bcde", ["bcdef"], "grant", "x"), "bcdef");
  assert.throws(() => findById("bcd", ["bcdef"], "grant", "x"), { hint: "use one of bcdef" });
  assert.equal(findById("aaaaaaaaaaaa1", ["aaaaaaaaaaaa1", "aaaaaaaaaaaa12"], "grant", "x"), "aaaaaaaaaaaa1");
  for (const prefix of ["", "a", "c"]) {
    assert.throws(() => findById(prefix, ids, "grant", "x"), { code: "not_found" });
  }
});
