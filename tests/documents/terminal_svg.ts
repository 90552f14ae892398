/** Size of a character cell, and the margin around the text. */
export const [CHARACTER, LINE, MARGIN] = [8.4, 19, 16];

/** The colors of a dark terminal, which is readable on light and dark pages. */
export const STYLE =
  `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d4d9e2;white-space:pre}
.b{font-weight:700;fill:#fff}.d{fill:#8b95a7}.r{fill:#ff7b72}.g{fill:#56d364}.m{fill:#d2a8ff}`;

/** Codes of terminals (ECMA-48, SGR) and the classes of {@linkcode STYLE}. */
const CLASSES: Readonly<Record<string, string>> = { 1: "b", 2: "d", 31: "r", 32: "g", 35: "m" };
const CODES = new RegExp("\x1b\\[([\\d;]*)m", "g");

const escape = (text: string) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

/** Turns the colors of terminal lines into spans. A color stays until another code ends it, also in later lines. */
export function paintLines(lines: readonly string[]): readonly string[] {
  let classes: readonly string[] = [];
  const span = (text: string) =>
    classes.length === 0 ? escape(text) : `<tspan class="${classes.join(" ")}">${escape(text)}</tspan>`;
  return lines.map((line) =>
    // The pieces at odd positions are the codes.
    line.split(CODES).map((piece, index) => {
      if (index % 2 === 0) return piece === "" ? "" : span(piece);
      for (const code of piece.split(";").map(Number)) {
        const isColor = code >= 30 && code < 40;
        classes = code === 0 ? [] : classes.filter((each) => !isColor || !"rgm".includes(each));
        classes = [...classes, ...CLASSES[code] ?? []];
      }
      return "";
    }).join("")
  );
}

/** Draws the lines of a terminal as a picture. */
export function drawTerminal(lines: readonly string[], columns: number, label: string): string {
  const [width, height] = [columns * CHARACTER + 2 * MARGIN, lines.length * LINE + 2 * MARGIN];
  const texts = paintLines(lines).map((line, row) =>
    `<text x="${MARGIN}" y="${MARGIN + row * LINE + 14}">${line}</text>`
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" role="img"
 aria-label="${escape(label)}">
<style>${STYLE}</style>
<rect width="${width}" height="${height}" rx="10" fill="#10141c" stroke="#39414f"/>
${texts.join("\n")}
</svg>
`;
}
