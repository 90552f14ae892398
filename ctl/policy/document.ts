// The document of `policy edit`: comments about the policy, and the values that can be edited at their key paths.
import * as z from "@zod/zod";
import { locate, parseConfig, setValue, type ValuePath } from "@gateway/shared/config";
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
import { requireEntry } from "../kit/signer_change.ts";
import { joinNames } from "../kit/table.ts";
import { listContributions } from "./explain.ts";

/** The policy to edit: that of a host, or those of a group. */
interface PolicyName {
  readonly kind: "host" | "group";
  readonly name: string;
}

/** Finds the host or the group in a config. */
export function findPolicy(
  { hosts, group_command_policies }: PolicyConfig,
  { host, group }: { readonly host?: string; readonly group?: string },
): PolicyName {
  if (host !== undefined && group === undefined) {
    requireEntry("host", hosts, host);
    return { kind: "host", name: host };
  }
  if (group === undefined || host !== undefined) throw invalid("Pass either --host or --group");
  const used = Object.values(hosts).flatMap(({ groups = [] }) => groups);
  if (Object.hasOwn(group_command_policies, group) || used.includes(group)) {
    return { kind: "group", name: group };
  }
  const problem = "no host and no group_command_policies has this name";
  throw notFound(`Cannot edit group ${quoteText(group)}: ${problem}`, undefined, "broker-ctl host list");
}

function pathsOf(
  { group_command_policies: groups }: PolicyConfig,
  { name, kind }: PolicyName,
): readonly ValuePath[] {
  if (kind === "host") return [["hosts", name, "command_policy"]];
  const policies = [...new Set(groups[name])];
  return [["group_command_policies", name], ...policies.map((each) => ["command_policies", each])];
}

/** The document of a policy. */
export function writeDocument(text: string, config: PolicyConfig, policy: PolicyName): string {
  const paths = pathsOf(config, policy);
  const own = new Set(paths.flatMap(([section, name = ""]) => section === "command_policies" ? [name] : []));
  const used = Object.entries(config.hosts).flatMap(([name, host]) => {
    const rows = listContributions(config, host);
    const isUsed = policy.kind === "host"
      ? name === policy.name
      : rows.some(({ name }) => own.has(name)) || host.groups?.includes(policy.name) === true;
    return isUsed ? [{ name, rows }] : [];
  });
  const others = new Set(used.flatMap(({ rows }) => rows.map(({ name }) => name))).difference(own);
  others.delete("<inline>");
  const comments = [
    `${policy.kind} ${quoteText(policy.name)}. Hosts: ${joinNames(used.map(({ name }) => name))}`,
    "Nothing is written before you have confirmed what changes. To cancel, change nothing.",
    "Comments outside the values are not saved.",
    ...others.size === 0 ? [] : ["Policies that also apply:"],
    ...[...others].flatMap((name) =>
      `${name}: ${JSON.stringify(config.command_policies[name], null, 2)}`.split("\n")
        .map((line) => `  ${line}`)
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
  return `${head}{\n${sections.join(",\n")}\n}\n`;
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
 * @param opened the document before it was edited
 * @throws {AppError} `conflict` if the config no longer contains what the document showed; `invalid_config` for a
 * document with other values
 */
export function mergeDocument(
  { document, opened }: { readonly document: string; readonly opened: string },
  text: string,
  config: PolicyConfig,
  policy: PolicyName,
): string {
  if (writeDocument(text, config, policy) !== opened) {
    const { kind, name } = policy;
    const problem = "rules of the document have changed in the config";
    const fix = `broker-ctl policy edit --${kind} ${shellQuote(name)}`;
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
