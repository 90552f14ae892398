/** Reads descriptions from the comments of the source, so that the reference and the code have the same text. */
import type { Shape } from "../../../shared/config/problems.ts";
import { listFiles, ROOT } from "../extract.ts";

interface Field {
  readonly name: string;
  readonly type: string;
  readonly about: string;
}

/** An interface, or a case of a union type. */
export interface Struct {
  readonly name: string;
  readonly parent: string | undefined;
  readonly about: string;
  readonly fields: readonly Field[];
}

const STRUCT =
  /(?:\/\*\*(?<about>(?:(?!\*\/)[^])*)\*\/\n)?(?:export )?interface (?<name>\w+)(?: extends (?<parent>\w+))? \{\n(?<body>[^]*?)\n\}/g;
/** A case of a union type. */
const CASE = /(?:\/\*\*(?<about>(?:(?!\*\/)[^])*)\*\/\n)? {2}\| (?:(?<parent>\w+) & )?\{(?<body>[^{}]*)\}/g;
const FIELD = /(?:\/\*\*((?:(?!\*\/)[^])*)\*\/\s*)?readonly (\w+\??): ([^;]+)(?:;|$)/g;

/**
 * The interfaces of a module and the cases of its union types. A field has the form `readonly name: Type;`.
 */
export function structsOf(source: string): readonly Struct[] {
  return [...source.matchAll(STRUCT), ...source.matchAll(CASE)].map(({ groups = {} }) => {
    const { name = "", parent, about, body = "" } = groups;
    const fields = [...body.trim().matchAll(FIELD)].map(([, text, name = "", type = ""]) => (
      { name, type: oneLine(type), about: oneLine(text) }
    ));
    return { name, parent, about: oneLine(about), fields };
  });
}

function oneLine(comment: string | undefined): string {
  return (comment ?? "").replace(/\n\s*\*?/g, " ").replace(/\{@linkcode (\w+)\}/g, "$1").replace(/\s+/g, " ")
    .trim();
}

/** Reads the source files of these directories, without tests. */
export function readSources(...directories: readonly string[]): readonly string[] {
  return directories.flatMap((directory) =>
    listFiles(directory).filter((file) => file.endsWith(".ts") && !/_test\.ts$|\/testing\//.test(file))
  ).map((file) => Deno.readTextFileSync(ROOT + file));
}

/** Reads these source files as one text. */
export function readSource(...directories: readonly string[]): string {
  return readSources(...directories).join("\n");
}

/** Adds the comments of the fields of a type to a schema, at every depth. */
export function annotate(shape: Shape, type: string, source: string): Shape {
  const structs = structsOf(source);
  const aliases = new Map(
    [...source.matchAll(/type (\w+) = ([^;]+);/g)].map(([, name = "", text = ""]) => [name, text]),
  );
  const find = (type: string): Struct | undefined => {
    for (const [name] of type.matchAll(/[A-Z]\w+/g)) {
      const found = structs.find((each) => each.name === name) ?? find(aliases.get(name) ?? "");
      if (found !== undefined) return found;
    }
    return undefined;
  };
  const fieldsOf = (struct: Struct | undefined): readonly Field[] =>
    struct === undefined ? [] : [...fieldsOf(find(struct.parent ?? "")), ...struct.fields];
  const walk = (shape: Shape, type: string): Shape => {
    const { items, additionalProperties: values, properties, anyOf, description } = shape;
    // A 64-bit integer may be written as a number or as a large number.
    if (anyOf?.every(({ type = "integer" }) => type === "integer")) {
      return { ...description !== undefined && { description }, type: "integer", minimum: 0 };
    }
    if (items !== undefined) return { ...shape, items: walk(items, type) };
    if (properties === undefined) {
      return typeof values === "object" ? { ...shape, additionalProperties: walk(values, type) } : shape;
    }
    const fields = fieldsOf(find(type));
    const members = Object.entries(properties).map(([name, member]) => {
      const { type = "", about = "" } = fields.find((each) => each.name.replace("?", "") === name) ?? {};
      return [name, { ...walk(member, type), ...(about !== "" && { description: about }) }];
    });
    return { ...shape, properties: Object.fromEntries(members) };
  };
  return walk(shape, type);
}

/** The route or routes of a handler, as its comment describes them. */
export interface RouteText {
  /** `POST /v1/sign`. */
  readonly routes: readonly string[];
  /** The name of the function. */
  readonly handler: string;
  readonly about: string;
  readonly callers: string;
  /** The meaning of each error code that is special to the handler. */
  readonly faults: Readonly<Record<string, string>>;
}

/** Reads the comments that begin with a method and a path. */
export function routeTexts(source: string): readonly RouteText[] {
  const comment = /\/\*\*((?:(?!\*\/)[^])*)\*\/\n(?:export )?(?:async )?(?:function|const) (\w+)/g;
  return [...source.matchAll(comment)].filter(([, text]) => /^`[A-Z]+ \//.test(oneLine(text))).map(
    ([, comment, handler = ""]) => {
      const text = oneLine(comment);
      const [head = "", ...tags] = text.split(/ @throws \{AppError\} /);
      const [, routes = "", about = "", callers = ""] =
        /^((?:`[^`]+`(?:, )?)+): (.*?) Callers: (.*)\.$/.exec(head) ?? [];
      const faults = tags.map((tag) => tag.split(/^`(\w+)` (?:if )?/).slice(1));
      return {
        ...{ routes: routes.split(", ").map((name) => name.slice(1, -1)), handler, about, callers },
        faults: Object.fromEntries(faults),
      };
    },
  );
}
