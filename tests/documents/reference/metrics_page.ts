/** The metrics, from the calls that register them. */
import { readSource } from "./source.ts";
import { fill, table, TEXTS } from "./table.ts";

const CALL = /metrics\.(\w+?)s?\(\s*"(\w+)",\s*"([^"]+)",?\s*(?:\[([^\]]*)\]|"(\w+)")?/g;
/** A row for each call: name, type, labels, services, help. */
export function readMetrics(): readonly (readonly string[])[] {
  return Object.entries(TEXTS["metrics"] ?? {}).flatMap(([directory, owner]) => {
    const calls = readSource(directory).replace(/\/\*\*[^]*?\*\//g, "").matchAll(CALL);
    return [...calls].map(([, call = "", name = "", help = "", labels = "", kind]) => {
      const type = call === "total" ? "counter" : call;
      const services = name.startsWith("upstream_") ? "control plane, broker" : owner;
      return [
        `\`${name}\``,
        type,
        kind === undefined
          ? (labels.match(/\w+/g) ?? []).map((each) => `\`${each}\``).join(", ")
          : "`result`",
        services,
        help,
      ];
    });
  });
}

export function metricsPage(): string {
  const rows = [...Map.groupBy(readMetrics(), ([name]) => name).values()]
    .map((each) => each[0]?.with(3, each.map(([, , , owner]) => owner ?? "").join(", ")) ?? [])
    .toSorted(([left = ""], [right = ""]) => left < right ? -1 : 1);
  return fill("metrics", { metrics: table(["Metric", "Type", "Labels", "Services", "Meaning"], rows) });
}
