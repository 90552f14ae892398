import type { RunDirectory } from "../runs/run_directory.ts";

/** The directory of the store in memory. A test can make it fail. */
export class MemoryDirectory implements RunDirectory {
  readonly files = new Map<string, Uint8Array>();
  /** The number of complete reads. */
  reads = 0;
  failing: "write" | "append" | "remove" | undefined;

  constructor(files: Readonly<Record<string, string>> = {}) {
    for (const [name, text] of Object.entries(files)) this.files.set(name, new TextEncoder().encode(text));
  }

  text(name: string): string {
    return new TextDecoder().decode(this.files.get(name));
  }

  names() {
    return Promise.resolve([...this.files.keys()]);
  }

  read(name: string) {
    this.reads += 1;
    return Promise.resolve(this.files.get(name));
  }

  readEnds(name: string, headBytes: number) {
    const bytes = this.files.get(name);
    if (bytes === undefined) return Promise.resolve(undefined);
    return Promise.resolve({
      head: bytes.subarray(0, headBytes),
      tail: bytes.subarray(-16),
    });
  }

  async write(name: string, bytes: Uint8Array) {
    await this.#mayFail("write");
    this.files.set(name, bytes);
  }

  async append(name: string, bytes: Uint8Array) {
    await this.#mayFail("append");
    this.files.set(name, new Uint8Array([...this.files.get(name) ?? [], ...bytes]));
  }

  async remove(name: string) {
    await this.#mayFail("remove");
    this.files.delete(name);
  }

  close() {}

  #mayFail(what: string): Promise<void> {
    return this.failing === what ? Promise.reject(new Error("no space left")) : Promise.resolve();
  }
}
