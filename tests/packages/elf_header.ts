/** Returns the start of an ELF program (elf(5)) for a machine: 62 is amd64, 183 is arm64. */
export function elfHeader(machine: number): Uint8Array<ArrayBuffer> {
  const header = new Uint8Array(64);
  header.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  new DataView(header.buffer).setUint16(18, machine, true);
  return header;
}
