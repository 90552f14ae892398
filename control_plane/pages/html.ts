/**
 * HTML that is safe to send. To make it from a string is to vouch for it: only for what we have written
 * ourselves, such as the contents of `<style>` and `<script>`. All else comes out of {@linkcode markup}.
 */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What a template takes: text is escaped, `undefined` and `false` are nothing. */
type HtmlValue = Html | string | number | undefined | false | readonly HtmlValue[];

/**
 * A template of HTML whose values are escaped, for text between tags and for attributes in double quotes. Never
 * for what is inside `<script>` or `<style>`, for names of tags and attributes, or for URLs that come from outside.
 */
// Not called html: the formatter would lay out such templates again, and white space between words is text.
export function markup(parts: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return new Html(parts.reduce((text, part, index) => text + render(values[index - 1]) + part));
}

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return "";
  if (value instanceof Html) return value.toString();
  return typeof value === "object" ? value.map(render).join("") : escapeHtml(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
  "`": "&#96;",
  // A parser replaces or drops these, so that what is read is not what was written.
  "\0": "&#xfffd;",
  "\r": "&#13;",
};

/** A text as it stands between tags or in a quoted attribute; a lone surrogate becomes U+FFFD. */
export function escapeHtml(text: string): string {
  return text.toWellFormed().replace(/[&<>"'`\0\r]/g, (character) => ENTITIES[character] ?? "");
}
