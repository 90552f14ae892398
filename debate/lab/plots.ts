/**
 * Plots as SVG.
 *
 * @module
 */
import type { CalibrationBin, Share } from "./statistics.ts";

const LEFT = 290;
const WIDTH = 420;
const LINE = 30;

/** A bar for each share, with its interval. */
export function plotShares(rows: readonly { readonly name: string; readonly share: Share }[]): string {
  const height = rows.length * LINE + 24;
  const x = (value: number) => LEFT + value * WIDTH;
  const bars = rows.map(({ name, share: { value, low, high } }, index) => {
    const y = index * LINE + 6;
    const middle = y + 9;
    return [
      `<text x="${LEFT - 8}" y="${middle + 4}" text-anchor="end">${escape(name)}</text>`,
      `<rect class="bar" x="${LEFT}" y="${y}" width="${fixed(value * WIDTH)}" height="18"></rect>`,
      `<line class="whisker" x1="${fixed(x(low))}" x2="${
        fixed(x(high))
      }" y1="${middle}" y2="${middle}"></line>`,
      ...[low, high].map((end) =>
        `<line class="whisker" x1="${fixed(x(end))}" x2="${fixed(x(end))}" y1="${middle - 5}" y2="${
          middle + 5
        }"></line>`
      ),
    ].join("");
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((tick) =>
    `<line class="axis" x1="${x(tick)}" x2="${x(tick)}" y1="0" y2="${height - 20}"></line>` +
    `<text x="${x(tick)}" y="${height - 4}" text-anchor="middle">${tick * 100} %</text>`
  );
  const told = rows.map(({ name, share }) => `${name} ${Math.round(share.value * 100)} %`).join(", ");
  return svg(LEFT + WIDTH + 30, height, told, [...ticks, ...bars]);
}

const SIDE = 200;
const EDGE = 36;

/** How often forecasts came true against how sure they were; a dot's size is the number of runs. */
export function plotCalibration(name: string, bins: readonly CalibrationBin[], brier: number | null): string {
  const at = (value: number) => fixed(EDGE + value * SIDE);
  const up = (value: number) => fixed(20 + (1 - value) * SIDE);
  const most = Math.max(1, ...bins.map(({ trials }) => trials));
  const dots = bins.flatMap(({ said, right, trials }) =>
    said === null || right === null ? [] : [
      `<circle class="dot" cx="${at(said)}" cy="${up(right)}" r="${
        fixed(3 + 6 * Math.sqrt(trials / most))
      }"></circle>` +
      `<text x="${at(said)}" y="${
        fixed(Number(up(right)) + (right > 0.5 ? 20 : -11))
      }" text-anchor="middle">${trials}</text>`,
    ]
  );
  const score = brier === null ? "" : `Brier ${brier.toFixed(3)}`;
  return svg(SIDE + 2 * EDGE, SIDE + 60, `Calibration of ${name}, ${score}`, [
    `<text x="0" y="12">${escape(name)}</text>`,
    `<text x="${EDGE + 8}" y="38">${score}</text>`,
    `<rect class="axis" fill="none" x="${EDGE}" y="20" width="${SIDE}" height="${SIDE}"></rect>`,
    `<line class="ideal" x1="${at(0)}" y1="${up(0)}" x2="${at(1)}" y2="${up(1)}"></line>`,
    ...dots,
    `<text x="${EDGE + SIDE / 2}" y="${SIDE + 38}" text-anchor="middle">said</text>`,
    `<text x="14" y="${20 + SIDE / 2}" text-anchor="middle" transform="rotate(-90 14 ${
      20 + SIDE / 2
    })">right</text>`,
  ]);
}

/** What an arm costs against how often it is right. */
export function plotCost(
  arms: readonly { readonly name: string; readonly tokens: number; readonly right: number }[],
): string {
  const most = Math.max(1, ...arms.map(({ tokens }) => tokens));
  const [width, height] = [800, 240];
  const x = (tokens: number) => fixed(40 + tokens / most * (width - 370));
  const y = (right: number) => fixed(14 + (1 - right) * (height - 50));
  return svg(width, height, "Tokens against right answers", [
    `<line class="axis" x1="40" x2="40" y1="10" y2="${height - 36}"></line>`,
    `<line class="axis" x1="40" x2="${width - 310}" y1="${height - 36}" y2="${height - 36}"></line>`,
    `<text x="${width - 310}" y="${height - 10}" text-anchor="end">tokens a run, at most ${most}</text>`,
    `<text x="34" y="20" text-anchor="end">100 %</text><text x="34" y="${
      height - 36
    }" text-anchor="end">0 %</text>`,
    // Dots may lie on each other, so their names are beside the plot.
    ...arms.map(({ name, tokens, right }, index) =>
      `<circle class="dot" cx="${x(tokens)}" cy="${y(right)}" r="5"></circle>` +
      `<text x="${fixed(Number(x(tokens)) + 7 + 9 * (index % 3))}" y="${fixed(Number(y(right)) + 14)}">${
        index + 1
      }</text>` +
      `<text x="${width - 290}" y="${24 + 20 * index}">${index + 1} ${escape(name)}</text>`
    ),
  ]);
}

function svg(width: number, height: number, label: string, parts: readonly string[]): string {
  return `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${
    escape(label)
  }">${parts.join("")}</svg>`;
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
