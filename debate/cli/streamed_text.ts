/**
 * Writes a text that arrives piece by piece, indented and wrapped at words.
 *
 * @module
 */
import { safeText } from "./terminal.ts";

export class StreamedText {
  readonly #write: (text: string) => void;
  readonly #width: number;
  readonly #indent: string;
  #column = 0;
  /** A word that may not be complete yet. */
  #word = "";
  #blank = "";
  #isEmpty = true;

  constructor(write: (text: string) => void, options: { readonly width: number; readonly indent: string }) {
    this.#write = write;
    this.#width = Math.max(20, options.width - options.indent.length);
    this.#indent = options.indent;
  }

  /** Whether anything but blanks has been written. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  push(piece: string): void {
    for (const [part] of piece.matchAll(/\n|[^\S\n]+|\S+/g)) {
      if (part === "\n") this.#breakLine();
      else if (part.trim() === "") {
        this.#flushWord();
        this.#blank += part.replace(/\t/g, "  ");
      } else this.#word += part;
    }
  }

  end(): void {
    this.#flushWord();
    this.interrupt();
  }

  /**
   * Ends the line before something else is written; the text continues below, with the word that is not
   * complete yet.
   */
  interrupt(): void {
    if (this.#column > 0) this.#write("\n");
    this.#column = 0;
    this.#blank = "";
  }

  #breakLine(): void {
    this.#flushWord();
    this.#blank = "";
    // Models often begin with empty lines.
    if (this.#isEmpty) return;
    this.#write("\n");
    this.#column = 0;
  }

  #flushWord(): void {
    if (this.#word === "") return;
    // Whole words only, so that no character is split.
    const word = safeText(this.#word);
    this.#word = "";
    if (this.#column > 0 && this.#column + this.#blank.length + word.length > this.#width) {
      this.#write("\n");
      this.#column = 0;
      this.#blank = "";
    }
    const text = `${this.#blank}${word}`;
    this.#write(this.#column === 0 ? `${this.#indent}${text}` : text);
    this.#column += text.length;
    this.#blank = "";
    this.#isEmpty = false;
  }
}
