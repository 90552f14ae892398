// The document of `policy edit`: comments about the policy, and the values that can be edited at their key paths.
import { createHash } from "node:crypto";
import * as z from "@zod/zod";
import { locate, nearMiss, parseConfig, setValue, type ValuePath } from "@gateway/shared/config";
import type { PolicyConfig } from "@gateway/shared/policy";
import {
  formatKeyPath,
  hasInvisible,
  quoteText,
  shellQuote,
  visibleJson,
  visibleText,
} from "@gateway/shared/text";
import { badConfig, conflict, invalid, notFound } from "../kit/output.ts";
import { joinNames } from "../kit/table.ts";
import { listContributions } from "./explain.ts";

export const KINDS = ["host", "group", "policy"] as const;

/** The policy to edit. */
interface PolicyName {
  readonly name: string;
  readonly kind: (typeof KINDS)[number];
}

/** Finds a host, group or command policy by its name. */
export function findPolicy(config: PolicyConfig, name: string, wanted?: PolicyName["kind"]): PolicyName {
  const { hosts, command_policies, group_command_policies } = config;
  const groups = Object.values(hosts).flatMap(({ groups = [] }) => groups);
  const names = {
    host: Object.keys(hosts),
    group: [...Object.keys(group_command_policies), ...groups],
    policy: Object.keys(command_policies),
  };
  const searched = wanted === undefined ? KINDS : [wanted];
  const found = searched.filter((each) => names[each].includes(name));
  const [kind, ...others] = found;
  if (kind === undefined) {
    const near = nearMiss(name, searched.flatMap((each) => names[each]));
    const hint = near === undefined ? "" : ` (did you mean ${quoteText(near)}?)`;
    const problem = `Cannot edit policy ${quoteText(name)}: no ${searched.join(" or ")} has this name${hint}`;
    throw notFound(problem, undefined, "broker-ctl policy show, or broker-ctl host list");
  }
  if (others.length === 0) return { name, kind };
  const problem = `Cannot edit policy ${quoteText(name)}: a ${found.join(" and a ")} have this name`;
  throw invalid(problem, undefined, `broker-ctl policy edit ${shellQuote(name)} --kind ${kind}`);
}

function pathsOf(
  { group_command_policies: groups }: PolicyConfig,
  { name, kind }: PolicyName,
): readonly ValuePath[] {
  if (kind === "host") return [["hosts", name, "command_policy"]];
  if (kind === "policy") return [["command_policies", name]];
  return [
    ["group_command_policies", name],
    ...new Set(groups[name]).values().map((each) => ["command_policies", each]),
  ];
}

const BASE = "// base: ";

/** The line of a document with the hash of all that it showed. */
export function findBase(document: string): string | undefined {
  return document.split(/\r?\n/).find((line) => line.startsWith(BASE))?.trim();
}

/** The document of a policy, with a hash of all that it shows. */
export function writeDocument(text: string, config: PolicyConfig, policy: PolicyName): string {
  const paths = pathsOf(config, policy);
  const own = new Set(paths.flatMap(([section, name = ""]) => section === "command_policies" ? [name] : []));
  const used = Object.entries(config.hosts).flatMap(([name, host]) => {
    const rows = listContributions(config, host);
    const isUsed = policy.kind === "host" ? name === policy.name : rows.some(({ name }) => own.has(name)) ||
      policy.kind === "group" && host.groups?.includes(policy.name) === true;
    return isUsed ? [{ name, rows }] : [];
  });
  const rows = used.flatMap(({ rows }) => rows).filter(({ name, via }) => via !== "host" && !own.has(name));
  const others = new Map(rows.map(({ name, via }) => [`${name} [${via}]`, config.command_policies[name]]));
  const comments = [
    `${policy.kind} ${quoteText(policy.name)}. Hosts: ${joinNames(used.map(({ name }) => name))}`,
    "Nothing is written before you have confirmed what changes. To cancel, change nothing.",
    "Comments above the first brace are not saved.",
    ...others.size === 0 ? [] : ["Policies that also apply, and that policy edit opens by their names:"],
    ...[...others].flatMap(([name, rules]) =>
      `${name}: ${JSON.stringify(rules, null, 2)}`.split("\n").map((line) => `  ${line}`)
    ),
  ];
  const sections = [...Map.groupBy(paths, ([section]) => section)].map(([section, members]) => {
    const lines = members.map((path) => {
      const value = textAt(text, path) ?? (section === "group_command_policies" ? "[]" : "{}");
      const [, name, key] = path;
      const start = `    ${visibleJson(JSON.stringify(name))}: `;
      return key === undefined ? start + value : `${start}{\n      "${key}": ${value}\n    }`;
    });
    return `  "${section}": {\n${lines.join(",\n")}\n  }`;
  });
  const head = comments.map((line) => `// ${visibleText(line)}\n`).join("");
  const rest = `${head}{\n${sections.join(",\n")}\n}\n`;
  return `${BASE}${createHash("sha256").update(rest).digest("hex")}\n${rest}`;
}

const policyValue = z.looseObject({});
const KIND = {
  ...{ what: "edited policy", source: "the document" },
  schema: z.strictObject({
    hosts: z.record(z.string(), z.strictObject({ command_policy: policyValue })).default({}),
    group_command_policies: z.record(z.string(), z.array(z.unknown())).default({}),
    command_policies: z.record(z.string(), policyValue).default({}),
  }),
};

/**
 * The text of a config with the values of a document, and their comments.
 *
 * @throws {AppError} `conflict` if the config no longer contains what the document showed; `invalid_config` for a
 * document with other values
 */
export function mergeDocument(
  document: string,
  text: string,
  config: PolicyConfig,
  policy: PolicyName,
): string {
  const opened = writeDocument(text, config, policy);
  if (findBase(document) !== findBase(opened)) {
    const { kind, name } = policy;
    const problem = "rules of the document have changed in the config";
    const fix = `broker-ctl policy edit ${shellQuote(name)} --kind ${kind}`;
    throw conflict(`Cannot edit ${kind} ${quoteText(name)}: ${problem}`, undefined, fix);
  }
  const shown = new Set(opened.split("\n"));
  const lines = document.split("\n");
  const odd = lines.findIndex((line) => !shown.has(line) && hasInvisible(line.replaceAll(/\t|\r$/g, "")));
  if (odd !== -1) {
    throw badConfig(`Cannot use the document: invisible character in line ${odd + 1}: ${lines[odd]}`);
  }
  const { hosts, ...named } = parseConfig({ ...KIND, text: document });
  const given: readonly ValuePath[] = [
    ...Object.keys(hosts).map((name) => ["hosts", name, "command_policy"]),
    ...Object.entries(named).flatMap(([key, values]) => Object.keys(values).map((name) => [key, name])),
  ];
  const isNew = (path: ValuePath) => path[0] === "command_policies" && textAt(text, path) === undefined;
  const describe = (paths: readonly ValuePath[]) => paths.map(formatKeyPath).sort().join(", ");
  const [has, needs] = [describe(given.filter((path) => !isNew(path))), describe(pathsOf(config, policy))];
  if (has !== needs) {
    throw badConfig(`Cannot use the document: it must contain ${needs}, and contains ${has}`);
  }
  return given.reduce((edited, path) => {
    const value = textAt(document, path);
    return value === undefined || value === textAt(opened, path) ? edited : putText(edited, path, value);
  }, text);
}

function textAt(text: string, path: ValuePath): string | undefined {
  const place = locate(text, path)[path.length];
  return place && text.slice(place.start, place.end);
}

function putText(text: string, path: ValuePath, value: string): string {
  const place = locate(text, path)[path.length];
  if (place === undefined) return putText(setValue(text, path, null), path, value);
  return text.slice(0, place.start) + value + text.slice(place.end);
}
