/**
 * Reading ends as soon as a part exceeds its limit. For a file of 10 MiB, Dicer needs 110 ms and 81 MB, and
 * `formData()` of the platform 235 ms and 111 MB. Busboy silently drops parts that it does not understand. This
 * module therefore uses only its Dicer and rejects the whole form.
 */
import { Dicer } from "@fastify/busboy";
import { AppError } from "@gateway/shared/errors";
import { readBodyBytes } from "@gateway/shared/http";
import { concatBytes } from "@gateway/shared/text";
import { Buffer } from "node:buffer";
import type { GivenFile } from "../context/collect.ts";

export interface Form {
  readonly fields: ReadonlyMap<string, string>;
  readonly files: ReadonlyMap<string, readonly GivenFile[]>;
}

const MAX_FIELD_BYTES = 1 << 20;
const MAX_PARTS = 100;
const MAX_FILES = 20;
/** A form has room for this number of files of maximum size. */
const MAX_LARGEST_FILES = 4;
const MAX_HEAD = { maxHeaderPairs: 20, maxHeaderSize: 8192 };
const MAX_NAME = 200;

export async function readForm(request: Request, maxFileBytes: number): Promise<Form> {
  const type = request.headers.get("content-type") ?? "";
  const boundary = boundaryOf(type);
  if (boundary !== undefined) return await readMultipart(request, boundary, maxFileBytes);
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(type)) {
    const text = "The body must be multipart/form-data, or application/x-www-form-urlencoded without files";
    throw new AppError("unsupported_media_type", text);
  }
  const text = new TextDecoder().decode(await readBodyBytes(request, MAX_FIELD_BYTES));
  return { fields: new Map(new URLSearchParams(text)), files: new Map() };
}

/** The boundary of a content type, or `undefined` if it is not multipart/form-data. */
function boundaryOf(contentType: string): string | undefined {
  const match = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(
    contentType,
  );
  return match?.[1] ?? match?.[2];
}

interface Part {
  readonly name: string;
  /** `undefined` for a text field. */
  readonly fileName: string | undefined;
  bytes: Uint8Array;
}

async function readMultipart(request: Request, boundary: string, maxFileBytes: number): Promise<Form> {
  const maxBytes = maxFileBytes * MAX_LARGEST_FILES + MAX_FIELD_BYTES + 64 * 1024;
  // A body with a too large content-length is not read at all.
  if (Number(request.headers.get("content-length")) > maxBytes) throw tooLarge("The form is", maxBytes);
  const parts: Part[] = [];
  const parser = new Dicer({ boundary, ...MAX_HEAD });
  let problem: AppError | undefined;
  let fieldBytes = 0;
  let count = 0;
  /** Callbacks of the parser cannot throw. The first problem is stored and ends the reading. */
  const attempt = (step: () => void) => {
    try {
      if (problem === undefined) step();
    } catch (error) {
      problem = error instanceof AppError ? error : invalidForm("A part of the form has an invalid header");
    }
  };
  const throwProblem = () => {
    if (problem !== undefined) throw problem;
  };
  const onPart = (stream: Dicer.PartStream) => {
    const chunks: Uint8Array[] = [];
    let part: Part | undefined;
    let length = 0;
    attempt(() => {
      if (++count > MAX_PARTS) throw invalidForm(`The form has more than ${MAX_PARTS} parts`);
    });
    stream.on("header", (header) =>
      attempt(() => {
        parts.push(part = { ...parseHead(header), bytes: new Uint8Array() });
        const fileCount = parts.filter(({ fileName = "" }) => fileName !== "").length;
        if (fileCount > MAX_FILES) throw invalidForm(`The form has more than ${MAX_FILES} files`);
      }));
    stream.on("data", (chunk: Uint8Array) =>
      attempt(() => {
        if (part === undefined) return;
        length += chunk.length;
        if (part.fileName === undefined) fieldBytes += chunk.length;
        else if (length > maxFileBytes) {
          throw tooLarge(`File ${JSON.stringify(part.fileName)} is`, maxFileBytes);
        }
        if (fieldBytes > MAX_FIELD_BYTES) {
          throw tooLarge("The text fields of the form are together", MAX_FIELD_BYTES);
        }
        chunks.push(chunk);
      }));
    stream.on("end", () =>
      attempt(() => {
        // The next boundary can truncate a header.
        if (part === undefined) throw invalidForm("A part of the form has no header");
        part.bytes = concatBytes(chunks);
      }));
    // The parser reports this error too.
    stream.on("error", () => {});
  };
  const ended = new Promise<void>((resolve, reject) => {
    parser.on("part", onPart);
    parser.on("error", () => reject(invalidForm("The form is incomplete: its last boundary is missing")));
    parser.on("finish", resolve);
  });
  ended.catch(() => {});
  let total = 0;
  for await (const chunk of untilBroken(request.body)) {
    total += chunk.length;
    if (total > maxBytes) throw tooLarge("The form is", maxBytes);
    await new Promise<void>((resolve) => parser.write(chunk, () => resolve()));
    throwProblem();
  }
  parser.end();
  await ended;
  throwProblem();
  const fields = new Map<string, string>();
  const files = new Map<string, GivenFile[]>();
  for (const { name, fileName, bytes } of parts) {
    if (fileName === undefined) fields.set(name, decode(bytes, `Field ${JSON.stringify(name)}`));
    // An empty file name without content is a file field without a file.
    else if (fileName !== "" || bytes.length > 0) {
      files.set(name, [...files.get(name) ?? [], { name: fileName || "upload", bytes }]);
    }
  }
  return { fields, files };
}

async function* untilBroken(body: Request["body"]): AsyncGenerator<Uint8Array> {
  try {
    yield* body ?? [];
  } catch {
    throw invalidForm("The form is incomplete: the connection was closed");
  }
}

/** Reads name and file name. The parser returns header values as one character per byte. */
function parseHead(header: object): Pick<Part, "name" | "fileName"> {
  const values: unknown = "content-disposition" in header ? header["content-disposition"] : undefined;
  const value: unknown = Array.isArray(values) ? values[0] : undefined;
  const line = typeof value === "string" ? decode(Buffer.from(value, "latin1"), "The header of a part") : "";
  if (!/^\s*form-data\s*(?:;|$)/i.test(line)) {
    throw invalidForm("A part of the form has no content-disposition: form-data");
  }
  const name = parameterOf(line, "name");
  if (name === undefined || name === "") throw invalidForm("A part of the form has no name");
  const fileName = parameterOf(line, "filename");
  return { name: name.slice(0, MAX_NAME), fileName: fileName === undefined ? undefined : baseName(fileName) };
}

/** Browsers encode quotes and line ends in names as `%22`, `%0D` and `%0A`. Other clients use backslashes. */
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

function tooLarge(what: string, bytes: number): AppError {
  return new AppError("payload_too_large", `${what} larger than ${bytes} bytes`);
}

function invalidForm(problem: string): AppError {
  return new AppError("invalid_request", problem);
}
