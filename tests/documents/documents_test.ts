import assert from "node:assert/strict";
import { systemRandom } from "@gateway/shared/clock";
import { createLayout, DEFAULT_LISTENERS } from "../../ctl/setup/layout.ts";
import { createKeyMaterial, planInstallation } from "../../ctl/setup/write.ts";
import manifest from "../../deno.json" with { type: "json" };
import { listFiles, readCommands, readNamed, ROOT, wordsOf } from "./extract.ts";
import { EXAMPLES, findMistake, optionsOf, PROGRAMS } from "./programs.ts";

const FILES = listFiles();
const DIRECTORIES = new Set(
  FILES.flatMap((file) =>
    file.split("/").slice(0, -1).map((_, depth, parts) => `${parts.slice(0, depth + 1).join("/")}/`)
  ),
);
/** Other tests compare the generated pages. The other files are sample input, not documentation. */
const NOT_DOCUMENTS = /^docs\/reference\/(?:configuration-|debate)|\/(?:fixtures|examples)\//;
const DOCUMENTS = FILES.filter((file) => file.endsWith(".md") && !NOT_DOCUMENTS.test(file));
const TASKS = Object.keys(manifest.tasks);
const PATH =
  /^(?!(?:application|text)\/)(?:~\/gateway\/|^(?:[\w.-]+\/)*(?:[\w.-]+\.(?:ts|md|txt|sh)|[\w.-]+\/)$|^[\w-]+\/[\w./-]+$)/;

/** Files of `init --dir ~/gateway`. Documents name them by full path, or relative to that directory. */
const INSTALLATION = planInstallation(
  createLayout("~/gateway"),
  { route: "control_plane", listeners: DEFAULT_LISTENERS, networks: [], hosts: [] },
  await createKeyMaterial(systemRandom),
).map(({ path }) => `~/gateway/${path}`);

/** True if a path in a document exists, relative to the directory of the document or to the root. */
function exists(path: string, document: string): boolean {
  const directory = document.slice(0, document.lastIndexOf("/") + 1);
  if (path.startsWith("~/gateway/")) return INSTALLATION.includes(path);
  if (INSTALLATION.includes(`~/gateway/${path}`)) return true;
  // A release creates dist/image from deploy/image.
  if (path.startsWith("dist/image")) return exists(path.replace("dist/", "deploy/"), document);
  if (path.startsWith("../")) return FILES.includes(new URL(path, `file:///${document}`).pathname.slice(1));
  const names = path.endsWith("/") ? [path] : [path, `${path}.ts`, `${path}/`];
  return [...FILES, ...DIRECTORIES].some((file) =>
    names.some((name) => file === name || (file.startsWith(directory) && `/${file}`.endsWith(`/${name}`)))
  );
}

/** Returns the first part of a command line that does not exist. */
function mistakeOf(words: readonly string[]): string | undefined {
  const [deno, verb, task = "", ...rest] = words;
  if (deno === "deno" && verb === "task") {
    const tasks = task.endsWith("*") ? TASKS.filter((name) => name.startsWith(task.slice(0, -1))) : [task];
    if (!tasks.every((name) => TASKS.includes(name)) || tasks.length === 0) return `there is no task ${task}`;
    return mistakeOf([task, ...rest]);
  }
  const program = PROGRAMS[words[0] ?? ""];
  return program === undefined ? undefined : findMistake(program, words.slice(1));
}

/** The options of all programs and commands. */
const OPTIONS = new Set([...Object.values(PROGRAMS).flatMap(optionsOf), ...await otherOptions()]);

/** Returns the options of programs without a command tree, read from their usage texts. */
async function otherOptions(): Promise<string[]> {
  const sources = [
    "broker/config/command_line.ts",
    "ctl/bridge/main.ts",
    "shared/service/mod.ts",
    "deploy/installed/gateway-setup",
    "tests/demo/main.ts",
  ];
  const texts = await Promise.all(sources.map((path) => Deno.readTextFile(`${ROOT}${path}`)));
  return texts.flatMap((text) => text.match(/(?<= )--[a-z][a-z-]*/g) ?? []);
}

/** Returns the anchors of the sections of a page. */
function anchorsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    `#${heading.toLowerCase().replaceAll(/[^\w\s-]/g, "").replaceAll(" ", "-")}`
  );
}

/** Returns the first part of a link that does not exist. */
function brokenPartOf(link: string, document: string, markdown: string): string | undefined {
  const { pathname, hash } = new URL(link, `file:///${document}`);
  const target = pathname.slice(1);
  if (![...FILES, ...DIRECTORIES].some((file) => file.replace(/\/$/, "") === target.replace(/\/$/, ""))) {
    return `no file ${link.replace(/#.*$/, "")}`;
  }
  if (hash === "" || !target.endsWith(".md")) return undefined;
  const text = target === document ? markdown : Deno.readTextFileSync(`${ROOT}${target}`);
  return anchorsOf(text).includes(hash) ? undefined : `no section ${link}`;
}

/** Returns every name in a document that does not exist. */
function findMistakes(document: string, markdown: string): string[] {
  const { spans, links, commands } = readNamed(markdown);
  const local = links.filter((link) => !/^https?:/.test(link));
  const lines = [...spans, ...commands];
  const named = lines.flatMap(wordsOf).filter((word) => PATH.test(word) && !word.includes("NAME"));
  const flags = spans.filter((span) => /^--[a-z][a-z-]*$/.test(span));
  return [
    ...named.filter((path) => !exists(path, document)).map((path) => `no file ${path}`),
    ...local.flatMap((link) => brokenPartOf(link, document, markdown) ?? []),
    ...flags.filter((flag) => !OPTIONS.has(flag)).map((flag) => `no option ${flag}`),
    ...lines.flatMap((line) => mistakeOf(wordsOf(line)) ?? []),
  ];
}

Deno.test.each(DOCUMENTS.map((document) => ({ document })))(
  "$document names only existing files, commands and options",
  async ({ document }) => {
    assert.deepEqual(findMistakes(document, await Deno.readTextFile(`${ROOT}${document}`)), []);
  },
);

Deno.test("docs/index.md lists each page once", async () => {
  const index = await Deno.readTextFile(`${ROOT}docs/index.md`);
  const rows = [...index.matchAll(/^\| \[[^\]]+\]\(([^)]+)\)/gm)].map(([, link = ""]) => link);
  const listed = rows.filter((link) => !link.startsWith("../"));
  const pages = FILES.filter((file) => /^docs\/(?!index|decisions\/\d).*\.md$/.test(file));
  assert.deepEqual(listed.map((link) => `docs/${link}`).toSorted(), pages.toSorted());
});

const RECORDS = DOCUMENTS.filter((file) => /^docs\/decisions\/(?!README)/.test(file));

Deno.test("docs/decisions/README.md lists each record once, in order", async () => {
  const index = await Deno.readTextFile(`${ROOT}docs/decisions/README.md`);
  const listed = [...index.matchAll(/\]\((\d[^)]*)\)/g)].map(([, name]) => `docs/decisions/${name}`);
  assert.deepEqual(listed, RECORDS.toSorted());
  assert.ok(RECORDS.length > 0);
});

Deno.test.each(RECORDS.map((record) => ({ record })))(
  "$record has the sections of a decision record",
  async ({ record }) => {
    const text = await Deno.readTextFile(`${ROOT}${record}`);
    assert.match(text, /^# \d+\. .+\n\n- Date: \d{4}-\d\d-\d\d\n- Status: (?:accepted|superseded by .+)\n/);
    assert.deepEqual([...text.matchAll(/^## (.*)$/gm)].map(([, part]) => part), [
      "Context",
      "Decision",
      "Consequences",
    ]);
  },
);

Deno.test.each(EXAMPLES)("the examples in the help of $command exist", ({ help }) => {
  const lines = readCommands(help).filter((line) => /^ {2}(?:broker-ctl|debate) /.test(line));
  assert.deepEqual(lines.flatMap((line) => mistakeOf(wordsOf(line)) ?? []), []);
});

Deno.test.each<{ name: string; markdown: string; mistake: string }>([
  { name: "a file", markdown: "`state/nothing.ts`", mistake: "no file state/nothing.ts" },
  { name: "a module without its extension", markdown: "`http/nothing`", mistake: "no file http/nothing" },
  { name: "a directory", markdown: "| `nothing/` |", mistake: "no file nothing/" },
  { name: "a link", markdown: "[a](nothing.md#part)", mistake: "no file nothing.md" },
  {
    name: "a section",
    markdown: "## One of two\n[a](#one-of-two), [b](#three)",
    mistake: "no section #three",
  },
  {
    name: "a section of another page",
    markdown: "[a](../docs/glossary.md#glossary), [b](../docs/glossary.md#three)",
    mistake: "no section ../docs/glossary.md#three",
  },
  { name: "a file of an installation", markdown: "`~/gateway/a.json`", mistake: "no file ~/gateway/a.json" },
  { name: "a task", markdown: "`deno task nothing`", mistake: "there is no task nothing" },
  { name: "a group of tasks", markdown: "`deno task stop:*`", mistake: "there is no task stop:*" },
  { name: "a single option", markdown: "`--nothing`", mistake: "no option --nothing" },
  {
    name: "a broker-ctl command in a code block",
    markdown: "```sh\ncd x # broker-ctl\ndeno task broker-ctl --json \\\n  policy nothing\n```",
    mistake: "policy has no command nothing",
  },
  {
    name: "an option of a command",
    markdown: "`broker-ctl approval allow\n--because x ID`",
    mistake: "allow has no option --because",
  },
  { name: "an argument", markdown: "`broker-ctl reload now`", mistake: "reload takes no now" },
  { name: "a command of the debate", markdown: "`debate watch`", mistake: "debate has no command watch" },
])("findMistakes() reports $name that does not exist", ({ markdown, mistake }) => {
  assert.deepEqual(findMistakes("shared/README.md", `# Title\n\n${markdown}\n`), [mistake]);
});
