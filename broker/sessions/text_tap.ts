import type { RedactStream } from "@gateway/shared/redact";

/** What {@linkcode TextTap} needs. */
interface TextTapOptions {
  readonly write: (text: string) => Promise<void>;
  /** Masks secrets, wherever packets end in them. */
  readonly redact: RedactStream;
  /** How much to take; the rest is dropped. */
  readonly maxBytes: number;
}

/** Turns the bytes of one stream into texts without secrets, in which no character is torn. */
export class TextTap {
  readonly #write: (text: string) => Promise<void>;
  readonly #redact: RedactStream;
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #room: number;
  #isCut = false;
  #failure: { readonly error: unknown } | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor({ write, redact, maxBytes }: TextTapOptions) {
    this.#write = write;
    this.#redact = redact;
    this.#room = maxBytes;
  }

  /** Takes the next bytes of the stream. */
  push(bytes: Uint8Array): void {
    const kept = bytes.subarray(0, this.#room);
    this.#room -= kept.length;
    this.#isCut ||= kept.length < bytes.length;
    this.#give(this.#redact.push(this.#decoder.decode(kept, { stream: true })));
  }

  /**
   * Gives what is left, and a last text.
   *
   * @throws the first error of the writes
   */
  async end(mark: string): Promise<void> {
    this.#give(this.#redact.push(this.#decoder.decode()));
    this.#give(this.#isCut ? this.#redact.cut() : this.#redact.end());
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
