/**
 * `deno task docs:pictures`: records the demo with asciinema and writes the recording as an animated picture.
 *
 * @module
 */
import { CHARACTER, LINE, MARGIN, paintLines, STYLE } from "./terminal_svg.ts";

const ROOT = new URL("../../", import.meta.url);
const COLUMNS = 100;
const ROWS = 30;
const SECONDS = 24;
/** The picture stands still for this time before it starts again. */
const PAUSE = 4;

/** Returns the output events of the demo: seconds since the start, and text. */
async function record(): Promise<(readonly [number, string])[]> {
  const cast = await Deno.makeTempFile({ suffix: ".cast" });
  const command = `${Deno.execPath()} task --quiet demo`;
  const rec = `asciinema rec -q --overwrite --cols ${COLUMNS} --rows ${ROWS} -c '${command}' ${cast}`;
  const { success } = await new Deno.Command("script", { args: ["-qec", rec, "/dev/null"], cwd: ROOT })
    .output();
  if (!success) {
    throw new Error("cannot record the demo: install asciinema, or run `deno task demo` to see why");
  }
  const [, ...lines] = (await Deno.readTextFile(cast)).trim().split("\n");
  await Deno.remove(cast);
  return lines.map((line) => JSON.parse(line)).map(([time, , text]) => [time, text] as const);
}

/** Draws the recording: one long text, a cover over the lines that are not printed yet, and a scroll. */
function draw(events: readonly (readonly [number, string])[]): string {
  const shown: { readonly time: number; readonly rows: number }[] = [];
  let text = "$ deno task demo\n";
  let time = 0;
  let before = 0;
  for (const [at, output] of events) {
    // Long waits become short, and lines that the demo prints together appear at a readable pace.
    time += Math.min(at - before, 0.5) + output.split("\n").length * 0.25;
    before = at;
    text += output.replaceAll("\r", "");
    shown.push({ time, rows: text.split("\n").length - 1 });
  }
  const stops = shown.map(({ time: at, rows }) => ({
    percent: at / time * 100 * SECONDS / (SECONDS + PAUSE),
    rows,
  }));
  const frames = (name: string, shift: (rows: number) => number) =>
    `@keyframes ${name}{0%{transform:translateY(${shift(1)}px)}` +
    stops.map(({ percent, rows }) => `${percent.toFixed(2)}%{transform:translateY(${shift(rows)}px)}`).join(
      "",
    ) + "}";
  const lines = text.trimEnd().split("\n");
  const [width, height] = [COLUMNS * CHARACTER + 2 * MARGIN, ROWS * LINE + 2 * MARGIN];
  const last = (lines.length - ROWS) * -LINE;
  const animation = `${SECONDS + PAUSE}s step-end infinite`;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img"
 aria-label="Recording of deno task demo in a terminal">
<style>${STYLE}
#s{animation:s ${animation}}#c{animation:c ${animation}}
${frames("s", (rows) => Math.min(0, ROWS - rows) * LINE)}
${frames("c", (rows) => rows * LINE)}
@media(prefers-reduced-motion){#s{animation:none;transform:translateY(${last}px)}#c{display:none}}</style>
<rect width="${width}" height="${height}" rx="10" fill="#10141c" stroke="#39414f"/>
<svg x="${MARGIN}" y="${MARGIN}" width="${width - 2 * MARGIN}" height="${height - 2 * MARGIN}"><g id="s">
${paintLines(lines).map((line, row) => `<text y="${row * LINE + 14}">${line}</text>`).join("\n")}
<rect id="c" width="${width}" height="${lines.length * LINE}" fill="#10141c"/></g></svg>
</svg>
`;
}

await Deno.writeTextFile(new URL("docs/images/demo.svg", ROOT), draw(await record()));
