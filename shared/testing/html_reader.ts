/** One element of a page, as the strict reader finds it. */
export interface ReadElement {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string>>;
  /** The text of the element and its descendants. */
  readonly text: string;
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
};

const VOID = ["meta", "input", "br", "hr"];
const TOKEN =
  /<!doctype html>|<(?<close>\/?)(?<tag>[a-z][a-z0-9]*)(?<attributes>(?: [a-zA-Z0-9-]+(?:="[^"<]*")?)*)\/?>|(?<text>(?:[^<&]|&(?:amp|lt|gt|quot);)+)/y;

/**
 * Reads a page in a strict form of HTML. Any markup that a browser would have to guess is an error, so that all
 * browsers parse an accepted page alike.
 *
 * @param sources the contents of script and style that are allowed
 */
export function readHtml(page: string, sources: readonly string[] = []): readonly ReadElement[] {
  const elements: { tag: string; attributes: Record<string, string>; text: string }[] = [];
  const open: typeof elements = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < page.length) {
    const at = TOKEN.lastIndex;
    const { close, tag, attributes, text } = TOKEN.exec(page)?.groups ?? {};
    if (TOKEN.lastIndex === 0) {
      throw new Error(`not HTML of ours: ${JSON.stringify(page.slice(at, at + 80))}`);
    }
    if (text !== undefined) { for (const element of open) element.text += decode(text); }
    if (tag === undefined) continue;
    if (close === "/") {
      if (open.pop()?.tag !== tag) throw new Error(`</${tag}> closes nothing at ${at}`);
      continue;
    }
    const element = { tag, attributes: readAttributes(attributes ?? ""), text: "" };
    elements.push(element);
    if (VOID.includes(tag)) continue;
    if (tag === "script" || tag === "style") {
      const source = sources.find((each) => page.startsWith(`${each}</${tag}>`, TOKEN.lastIndex));
      if (source === undefined) throw new Error(`a <${tag}> that is not ours at ${at}`);
      TOKEN.lastIndex += `${source}</${tag}>`.length;
      continue;
    }
    open.push(element);
  }
  if (open.length > 0) throw new Error(`not closed: ${open.map(({ tag }) => tag).join(" ")}`);
  return elements;
}

function readAttributes(text: string): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/ ([a-zA-Z0-9-]+)(?:="([^"]*)")?/g)) {
    if (Object.hasOwn(attributes, name)) throw new Error(`attribute ${name} twice`);
    attributes[name] = decode(value);
  }
  return attributes;
}

function decode(text: string): string {
  return text.replace(/&[^;]+;/g, (entity) => {
    const character = ENTITIES[entity];
    if (character === undefined) throw new Error(`an entity that is not ours: ${entity}`);
    return character;
  });
}
