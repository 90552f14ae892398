import { FORMATS, type ShimFormat } from "./installed_shim.ts";

/** A shim, and a shell that interprets it. */
export interface ShimVariant {
  readonly name: string;
  readonly format: ShimFormat;
  readonly shell: readonly string[];
}

/** The shells that common systems use as /bin/sh, each with all formats. */
export const SHIMS: readonly ShimVariant[] = [
  { name: "gateway-shim in dash", format: FORMATS.v2, shell: ["dash"] },
  { name: "gateway-shim in bash", format: FORMATS.v2, shell: ["bash", "--posix"] },
  { name: "gateway-shim in busybox", format: FORMATS.v2, shell: ["busybox", "sh"] },
  { name: "gateway-shim with v3 in dash", format: FORMATS.v3, shell: ["dash"] },
  { name: "gateway-shim-v1", format: FORMATS.v1, shell: ["sh"] },
];
