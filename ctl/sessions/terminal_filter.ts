import { escapeCharacter, ODD } from "@gateway/shared/text";

/** An incomplete control sequence that is longer is no longer held back. */
const LONGEST_HELD = 4096;

// ECMA-48: control sequences, then control strings such as titles (OSC) and DCS, then the other escape sequences. A
// control string counts only with its end, so that a host cannot hide the text after it.
const STRING = String.raw`\x1b[\]PX^_][^\x07\x18\x1a\x1b\x9c]*`;
const CONTROL = new RegExp(
  String.raw`\x1b\[[0-?]*[ -\/]*[@-~]|${STRING}(?:\x07|\x1b\\|\x9c)|\x1b[ -\/]*[0-~]|${ODD}`,
  "gu",
);
const INCOMPLETE = new RegExp(String.raw`(?:\x1b\[[0-?]*[ -\/]*|${STRING}\x1b?|\x1b[ -\/]*)$`, "u");
/** Colors, cursor movement, and erasing except of the scrollback. */
const ALLOWED = new RegExp(String.raw`^(?:[\b\t\n\r]|\x1b\[[\d;:]{0,64}[A-HKXdfm]|\x1b\[[0-2]?J)$`);

/**
 * Creates a filter for output of a host. A terminal would obey all of it: set the clipboard or the title, or type an
 * answer for the operator. The filter passes text, colors, cursor movement and erasing. It removes other control
 * sequences, and escapes other control characters and invisible characters.
 */
export function createTerminalFilter(): (text: string) => string {
  let held = "";
  return (text) => {
    const all = held + text;
    const tail = INCOMPLETE.exec(all)?.[0] ?? "";
    held = tail.length > LONGEST_HELD ? "" : tail;
    return all.slice(0, all.length - held.length).replace(CONTROL, (found) => {
      if (ALLOWED.test(found)) return found;
      return found.startsWith("\x1b") ? "" : escapeCharacter(found);
    });
  };
}
