/**
 * Reads `multipart/form-data` (RFC 7578) as it comes. A part that grows over its limit ends the reading there, so
 * what is too large is never in memory as a whole.
 *
 * @module
 */
import type { GivenFile } from "../context/collect.ts";
import { concatBytes, indexOfBytes, joinBytes } from "./byte_search.ts";
import {
  type Form,
  type FormLimits,
  invalidForm,
  MAX_FIELD_BYTES,
  MAX_FILES,
  MAX_PARTS,
  maxFormBytes,
  tooLarge,
} from "./form_limits.ts";

const MAX_HEAD_BYTES = 8192;
const MAX_NAME = 200;
const LINE_END = new TextEncoder().encode("\r\n");
const HEAD_END = new TextEncoder().encode("\r\n\r\n");

/** A content type's boundary; `undefined` when it is no multipart form. */
export function boundaryOf(contentType: string): string | undefined {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(
    contentType,
  );
  return match?.[1] ?? match?.[2];
}

/**
 * Reads a form.
 *
 * @throws {AppError} `payload_too_large` for a file, the texts or the whole being too large; `invalid_request` when
 * it breaks off, is not laid out as it should be, or a text is not UTF-8
 */
export async function readMultipart(
  body: AsyncIterable<Uint8Array>,
  boundary: string,
  limits: FormLimits,
): Promise<Form> {
  const input = new PartInput(body, boundary, maxFormBytes(limits));
  const fields = new Map<string, string>();
  const files = new Map<string, GivenFile[]>();
  let [parts, fieldBytes, fileCount] = [0, 0, 0];
  await input.skipPreamble();
  while (await input.hasPart()) {
    parts += 1;
    if (parts > MAX_PARTS) throw invalidForm(`The form has more than ${MAX_PARTS} parts`);
    const { name, fileName } = parseHead(await input.readHead());
    if (fileName === undefined) {
      const bytes = await input.readBody(MAX_FIELD_BYTES - fieldBytes, () => (
        tooLarge("The text fields of the form are together", MAX_FIELD_BYTES)
      ));
      fieldBytes += bytes.length;
      fields.set(name, decode(bytes, `Field ${JSON.stringify(name)}`));
      continue;
    }
    const shown = `File ${JSON.stringify(fileName)}`;
    const bytes = await input.readBody(
      limits.maxFileBytes,
      () => tooLarge(`${shown} is`, limits.maxFileBytes),
    );
    // A file field in which nothing was chosen.
    if (fileName === "" && bytes.length === 0) continue;
    fileCount += 1;
    if (fileCount > MAX_FILES) throw invalidForm(`The form has more than ${MAX_FILES} files`);
    const list = files.get(name) ?? [];
    list.push({ name: fileName || "upload", bytes });
    files.set(name, list);
  }
  return { fields, files };
}

/** The body, cut at its boundaries. */
class PartInput {
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #delimiter: Uint8Array;
  readonly #maxBytes: number;
  #buffer: Uint8Array = new Uint8Array();
  #total = 0;

  constructor(body: AsyncIterable<Uint8Array>, boundary: string, maxBytes: number) {
    this.#chunks = body[Symbol.asyncIterator]();
    this.#delimiter = new TextEncoder().encode(`\r\n--${boundary}`);
    this.#maxBytes = maxBytes;
    // The first boundary has no line before it.
    this.#buffer = LINE_END;
  }

  /** Goes behind the first boundary. */
  async skipPreamble(): Promise<void> {
    await this.readBody(MAX_HEAD_BYTES, () => invalidForm("The form does not begin with its boundary"));
  }

  /** Whether another part follows the boundary. */
  async hasPart(): Promise<boolean> {
    while (this.#buffer.length < 2) await this.#more();
    const [first, second] = this.#buffer;
    if (first === 0x2d && second === 0x2d) return false;
    // Blanks may stand behind a boundary (RFC 2046 section 5.1.1).
    for (;;) {
      const end = indexOfBytes(this.#buffer, LINE_END);
      const line = this.#buffer.subarray(0, end < 0 ? this.#buffer.length : end);
      if (line.some((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0d)) {
        throw invalidForm("The form has a boundary that does not end its line");
      }
      if (end >= 0) {
        // Kept: a part without headers has its empty line right here.
        this.#buffer = this.#buffer.subarray(end);
        return true;
      }
      await this.#more();
    }
  }

  async readHead(): Promise<string> {
    for (;;) {
      const end = indexOfBytes(this.#buffer, HEAD_END);
      if (end > MAX_HEAD_BYTES || (end < 0 && this.#buffer.length > MAX_HEAD_BYTES)) {
        throw invalidForm("A part of the form has too long a head");
      }
      if (end >= 0) {
        const head = this.#buffer.subarray(0, end);
        this.#buffer = this.#buffer.subarray(end + HEAD_END.length);
        return decode(head, "The head of a part");
      }
      await this.#more();
    }
  }

  /** What stands before the next boundary. */
  async readBody(maxBytes: number, tooLong: () => Error): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    const take = (bytes: Uint8Array) => {
      length += bytes.length;
      if (length > maxBytes) throw tooLong();
      // A copy: the buffer would keep the whole chunk alive.
      if (bytes.length > 0) chunks.push(bytes.slice());
    };
    for (;;) {
      const end = indexOfBytes(this.#buffer, this.#delimiter);
      if (end >= 0) {
        take(this.#buffer.subarray(0, end));
        this.#buffer = this.#buffer.subarray(end + this.#delimiter.length);
        return concatBytes(chunks);
      }
      // The boundary may begin in what is here and end in what comes.
      const certain = Math.max(0, this.#buffer.length - this.#delimiter.length + 1);
      take(this.#buffer.subarray(0, certain));
      this.#buffer = this.#buffer.subarray(certain);
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    let result: IteratorResult<Uint8Array>;
    try {
      result = await this.#chunks.next();
    } catch {
      throw invalidForm("The form broke off");
    }
    if (result.done) throw invalidForm("The form broke off before its last boundary");
    this.#total += result.value.length;
    if (this.#total > this.#maxBytes) throw tooLarge("The form is", this.#maxBytes);
    this.#buffer = joinBytes(this.#buffer, result.value);
  }
}

function parseHead(head: string): { readonly name: string; readonly fileName: string | undefined } {
  const line = head.split("\r\n").find((each) => /^content-disposition\s*:/i.test(each)) ?? "";
  if (!/^content-disposition\s*:\s*form-data\s*(?:;|$)/i.test(line)) {
    throw invalidForm("A part of the form has no content-disposition: form-data");
  }
  const name = parameterOf(line, "name");
  if (name === undefined || name === "") throw invalidForm("A part of the form has no name");
  const fileName = parameterOf(line, "filename");
  return { name: name.slice(0, MAX_NAME), fileName: fileName === undefined ? undefined : baseName(fileName) };
}

/** Browsers write quotes and line ends in names as `%22`, `%0D`, `%0A`; others escape with a backslash. */
function parameterOf(line: string, name: string): string | undefined {
  const match = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;"]*))`, "i").exec(line);
  const value = match?.[1]?.replace(/\\(["\\])/g, "$1") ?? match?.[2];
  return value?.replace(/%22/g, '"').replace(/%0d|%0a/gi, " ");
}

function baseName(path: string): string {
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1);
  return name.replace(/\p{C}/gu, " ").trim().slice(0, MAX_NAME).toWellFormed();
}

function decode(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalidForm(`${what} is not UTF-8 text`);
  }
}
