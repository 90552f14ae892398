import type { ToolArgs } from "../../engine/events.ts";

const MAX_ARGUMENTS = 3;

/** A tool call as people read it: a command, a request or a query. All values can be hostile. */
export function callLine(tool: string, args: ToolArgs | null | undefined): string {
  const value = (name: string) => oneLine(args?.[name]);
  switch (tool) {
    case "run_local_command":
      return `$ ${value("command")}`;
    case "run_ssh_command":
      return `$ ssh ${[value("user"), value("host")].filter((each) => each !== "").join("@")} ${
        value("command")
      }`;
    case "run_kubectl":
      return `$ kubectl ${value("kubectl_args")}`;
    case "git_recent_changes":
      return `$ git log ${value("repo_path")}`.trimEnd();
    case "http_get":
      return `GET ${value("url")}`;
    case "query_prometheus":
      return `PromQL: ${value("query")}`;
    case "query_loki":
      return `LogQL: ${value("query")}`;
    case "query_elasticsearch":
      return `Search ${value("index")}: ${value("query_json")}`;
    case "run_db_explain":
      return `EXPLAIN ${value("query")}`;
    default:
      return [
        tool,
        ...Object.keys(args ?? {}).slice(0, MAX_ARGUMENTS).map((name) => `${name}=${value(name)}`),
      ].join(" ");
  }
}

function oneLine(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value) ?? "";
  return text.split(/[\r\n]/).map((line) => line.trim()).filter((line) => line !== "").join(" ");
}
