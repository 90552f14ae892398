import type { ToolArgs } from "../../engine/events.ts";

const MAX_ARGUMENTS = 3;

/** The short form of a tool, and its main argument. `{name}` is another argument. */
const FORMS = new Map<string, readonly [start: string, main: string]>([
  ["run_local_command", ["$ ", "command"]],
  ["run_ssh_command", ["$ ssh {host} ", "command"]],
  ["run_kubectl", ["$ kubectl ", "kubectl_args"]],
  ["git_recent_changes", ["$ git log ", "repo_path"]],
  ["http_get", ["GET ", "url"]],
  ["query_prometheus", ["PromQL: ", "query"]],
  ["query_loki", ["LogQL: ", "query"]],
  ["query_elasticsearch", ["Search {index}: ", "query_json"]],
  ["run_db_explain", ["EXPLAIN ", "query"]],
]);

/** A tool call in one line: a command, a request or a query. All values can be hostile. */
export function callLine(tool: string, args: ToolArgs | null | undefined): string {
  const value = (name: string) => oneLine(args?.[name]);
  const [start, main] = FORMS.get(tool) ?? [];
  if (start !== undefined && main !== undefined && value(main) !== "") {
    return start.replace(/\{(\w+)\}/, (_, name) => value(name)) + value(main);
  }
  const words = Object.keys(args ?? {}).slice(0, MAX_ARGUMENTS).map((name) => `${name}=${value(name)}`);
  return [tool, ...words].join(" ");
}

function oneLine(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value) ?? "";
  return text.split(/[\r\n]/).map((line) => line.trim()).filter((line) => line !== "").join(" ");
}
