import type { ToolArgs } from "../../engine/events.ts";

const MAX_ARGUMENTS = 3;

type Argument = (name: string) => string;

/** The tools with a short form. It is empty if the main argument is missing. */
const FORMS: Readonly<Record<string, (value: Argument) => string>> = {
  run_local_command: (value) => after("$ ", value("command")),
  run_ssh_command: (value) => after(`$ ssh ${value("host")} `, value("command")),
  run_kubectl: (value) => after("$ kubectl ", value("kubectl_args")),
  git_recent_changes: (value) => after("$ git log ", value("repo_path")),
  http_get: (value) => after("GET ", value("url")),
  query_prometheus: (value) => after("PromQL: ", value("query")),
  query_loki: (value) => after("LogQL: ", value("query")),
  query_elasticsearch: (value) => after(`Search ${value("index")}: `, value("query_json")),
  run_db_explain: (value) => after("EXPLAIN ", value("query")),
};

/** A tool call in one line: a command, a request or a query. All values can be hostile. */
export function callLine(tool: string, args: ToolArgs | null | undefined): string {
  const value: Argument = (name) => oneLine(args?.[name]);
  const form = Object.hasOwn(FORMS, tool) ? FORMS[tool]?.(value) ?? "" : "";
  if (form !== "") return form;
  const words = Object.keys(args ?? {}).slice(0, MAX_ARGUMENTS).map((name) => `${name}=${value(name)}`);
  return [tool, ...words].join(" ");
}

function after(start: string, text: string): string {
  return text === "" ? "" : start + text;
}

function oneLine(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value) ?? "";
  return text.split(/[\r\n]/).map((line) => line.trim()).filter((line) => line !== "").join(" ");
}
