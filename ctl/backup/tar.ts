import { normalize } from "node:path";
import { concatBytes } from "@gateway/shared/text";

export interface TarFile {
  readonly path: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly content: Uint8Array<ArrayBuffer>;
}

const BLOCK = 512;
/** Offset and length of the fields of a header (POSIX.1-1988 ustar). */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  magic: [257, 8],
  prefix: [345, 155],
} as const;

/** Writes a tar archive, which `tar` and {@linkcode readTar} read. */
export function writeTar(files: readonly TarFile[]): Uint8Array<ArrayBuffer> {
  const parts = files.flatMap(({ content, ...file }) => [
    writeHeader(file, content.length),
    content,
    new Uint8Array((BLOCK - content.length % BLOCK) % BLOCK),
  ]);
  return concatBytes([...parts, new Uint8Array(2 * BLOCK)]);
}

function writeHeader({ path, mode, uid, gid }: Omit<TarFile, "content">, size: number): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  const put = (fields: { readonly [Name in keyof typeof FIELDS]?: string }) => {
    for (const [name, text] of Object.entries(fields)) {
      header.set(new TextEncoder().encode(text), FIELDS[name as keyof typeof FIELDS][0]);
    }
  };
  const [prefix, name] = splitPath(path.slice(1));
  put({ name, prefix, mode: octal(mode, 7), uid: octal(uid, 7), gid: octal(gid, 7), size: octal(size, 11) });
  put({ mtime: octal(0, 11), type: "0", magic: "ustar\x0000", checksum: " ".repeat(8) });
  put({ checksum: `${octal(header.reduce((sum, byte) => sum + byte, 0), 6)} ` });
  return header;
}

/** A name has at most 100 bytes, and at most 155 before its slash. */
function splitPath(path: string): readonly [prefix: string, name: string] {
  const length = (text: string) => new TextEncoder().encode(text).length;
  if (length(path) <= FIELDS.name[1]) return ["", path];
  for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
    const [prefix, name] = [path.slice(0, slash), path.slice(slash + 1)];
    if (length(name) <= FIELDS.name[1] && length(prefix) <= FIELDS.prefix[1]) return [prefix, name];
  }
  throw new RangeError(`the path ${JSON.stringify(path)} is too long for an archive`);
}

/** Reads an archive of {@linkcode writeTar}. */
export function readTar(archive: Uint8Array<ArrayBuffer>): readonly TarFile[] {
  const files: TarFile[] = [];
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let offset = 0; offset + BLOCK <= archive.length;) {
    const header = archive.subarray(offset, offset + BLOCK);
    if (header.every((byte) => byte === 0)) return files;
    const field = (name: keyof typeof FIELDS) => {
      const [start, length] = FIELDS[name];
      return decoder.decode(header.subarray(start, start + length)).replace(/\0.*$/s, "");
    };
    const octal = (name: keyof typeof FIELDS) => {
      const text = field(name).trim();
      if (!/^[0-7]+$/.test(text)) throw new RangeError("a header of the archive is invalid");
      return Number.parseInt(text, 8);
    };
    const sum = header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);
    if (sum !== octal("checksum") || field("type") !== "0") {
      throw new RangeError("a header of the archive is invalid");
    }
    const start = offset + BLOCK;
    const end = start + octal("size");
    if (end > archive.length) throw new RangeError("the archive is truncated");
    const path = `/${field("prefix") === "" ? "" : `${field("prefix")}/`}${field("name")}`;
    if (normalize(path) !== path) throw new RangeError("a path of the archive is not normalized");
    const [mode, content] = [octal("mode") & 0o777, archive.slice(start, end)];
    files.push({ path, mode, uid: octal("uid"), gid: octal("gid"), content });
    offset = start + Math.ceil((end - start) / BLOCK) * BLOCK;
  }
  throw new RangeError("the archive is truncated");
}
