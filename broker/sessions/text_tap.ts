/** The longest text that waits for the end of its line, in UTF-16 units. */
const MAX_HELD = 65_536;

/**
 * Turns the bytes of one stream into texts of whole lines: neither a character nor a secret that redaction looks
 * for shall be torn where a packet ends. A line that does not end is given in parts.
 */
export class TextTap {
  readonly #write: (text: string) => Promise<void>;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #room: number;
  #held = "";
  #failure: { readonly error: unknown } | undefined;
  #last: Promise<void> = Promise.resolve();

  /** @param maxBytes how much to take; the rest is dropped */
  constructor(write: (text: string) => Promise<void>, maxBytes: number) {
    this.#write = write;
    this.#room = maxBytes;
  }

  /** Takes the next bytes of the stream. */
  push(bytes: Uint8Array): void {
    const kept = bytes.subarray(0, this.#room);
    this.#room -= kept.length;
    const text = this.#held + this.#decoder.decode(kept, { stream: true });
    const end = text.length > MAX_HELD ? text.length : text.lastIndexOf("\n") + 1;
    this.#held = text.slice(end);
    this.#give(text.slice(0, end));
  }

  /**
   * Gives what is left, and a last text.
   *
   * @throws the first error of the writes
   */
  async end(mark: string): Promise<void> {
    this.#give(this.#held + this.#decoder.decode());
    this.#held = "";
    this.#give(mark);
    await this.#last;
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  #give(text: string): void {
    if (text === "") return;
    // A tap keeps the order of the calls, so the last one is done when all are.
    this.#last = this.#write(text).catch((error) => {
      this.#failure ??= { error };
    });
  }
}
