import { createElement, type JSX } from "preact";
import alert from "lucide/dist/esm/icons/triangle-alert.mjs";
import check from "lucide/dist/esm/icons/check.mjs";
import clock from "lucide/dist/esm/icons/clock.mjs";
import close from "lucide/dist/esm/icons/x.mjs";
import compare from "lucide/dist/esm/icons/columns-2.mjs";
import copy from "lucide/dist/esm/icons/copy.mjs";
import download from "lucide/dist/esm/icons/download.mjs";
import empty from "lucide/dist/esm/icons/inbox.mjs";
import file from "lucide/dist/esm/icons/paperclip.mjs";
import key from "lucide/dist/esm/icons/key-round.mjs";
import language from "lucide/dist/esm/icons/languages.mjs";
import pause from "lucide/dist/esm/icons/pause.mjs";
import play from "lucide/dist/esm/icons/play.mjs";
import refresh from "lucide/dist/esm/icons/refresh-cw.mjs";
import search from "lucide/dist/esm/icons/search.mjs";
import shield from "lucide/dist/esm/icons/shield-check.mjs";
import stop from "lucide/dist/esm/icons/square.mjs";
import theme from "lucide/dist/esm/icons/sun-moon.mjs";
import trash from "lucide/dist/esm/icons/trash.mjs";
import upload from "lucide/dist/esm/icons/upload.mjs";

type Shape = readonly (readonly [name: string, attributes: Readonly<Record<string, string>>])[];

const ICONS = {
  alert,
  check,
  clock,
  close,
  compare,
  copy,
  download,
  empty,
  file,
  key,
  language,
  pause,
  play,
  refresh,
  search,
  shield,
  stop,
  theme,
  trash,
  upload,
} as const;

/** The name of an icon. */
export type IconName = keyof typeof ICONS;

/** An icon of the Lucide set. It is decoration: the text next to it has the meaning. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  const shapes: Shape = ICONS[name];
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      {shapes.map(([shape, attributes]) => createElement(shape, attributes))}
    </svg>
  );
}
