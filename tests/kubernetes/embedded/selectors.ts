import { badRequest } from "./status.ts";
import type { StoredObject } from "./store.ts";

type Matches = (object: StoredObject) => boolean;

/** The supported fields of field selectors, by resource. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  pods: ["spec.nodeName", "spec.restartPolicy", "status.phase", "status.podIP"],
  nodes: ["spec.unschedulable"],
  namespaces: ["status.phase"],
  secrets: ["type"],
  events: ["reason", "type", "involvedObject.name", "involvedObject.kind"],
};

export function parseLabelSelector(text: string): Matches {
  const requirements = splitRequirements(text).map(parseRequirement);
  return (object) => requirements.every((matches) => matches(object.metadata.labels ?? {}));
}

/** For example `metadata.name=web-1,status.phase!=Running`. */
export function parseFieldSelector(plural: string, text: string): Matches {
  const known = ["metadata.name", "metadata.namespace", ...FIELDS[plural] ?? []];
  const requirements = text.split(",").filter((part) => part !== "").map((part): Matches => {
    const [, path = "", operator = "", value = ""] = /^([^=!]*)(==|=|!=)(.*)$/.exec(part) ?? [];
    if (path === "") throw badRequest(`invalid selector: '${part}'; can't understand '${part}'`);
    if (!known.includes(path)) {
      const names = ["metadata.name", "metadata.namespace"].map((name) => `"${name}"`).join(", ");
      throw badRequest(`"${path}" is not a known field selector: only ${names}`);
    }
    return (object) => (fieldAt(object, path) === value) === (operator !== "!=");
  });
  return (object) => requirements.every((matches) => matches(object));
}

function fieldAt(object: StoredObject, path: string): string {
  let value: unknown = object;
  for (const key of path.split(".")) value = (value as Record<string, unknown> | undefined)?.[key];
  return value === undefined ? "" : String(value);
}

function splitRequirements(text: string): readonly string[] {
  return text.match(/(?:\([^)]*\)|[^,(])+/g)?.map((part) => part.trim()).filter((part) => part !== "") ?? [];
}

function parseRequirement(text: string): (labels: Readonly<Record<string, string>>) => boolean {
  const [, absent, key = "", rest = ""] = /^(!?)\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*(.*)$/.exec(text) ?? [];
  if (key === "") {
    const [found = text] = /^(==|=|!=|\S+)/.exec(text) ?? [];
    throw badRequest(`found '${found}', expected: !, identifier, or 'end of string'`);
  }
  if (rest === "") return (labels) => (key in labels) === (absent === "");
  const [, operator, list] = /^(in|notin)\s*\(([^)]*)\)$/.exec(rest) ?? [];
  if (list !== undefined) {
    const values = list.split(",").map((value) => value.trim());
    return (labels) => values.includes(labels[key] ?? "\0") === (operator === "in");
  }
  const [, sign, value] = /^(==|=|!=)\s*([-A-Za-z0-9_.]*)$/.exec(rest) ?? [];
  if (value === undefined) throw badRequest(`unable to parse requirement: found '${rest}'`);
  return (labels) => (labels[key] === value) === (sign !== "!=");
}
