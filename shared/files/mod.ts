/**
 * Files: bounded reads, atomic writes, locks, exposed modes.
 *
 * @module
 */

export { findLeft, followLink, removeLeft, writeFileAtomic } from "./atomic_file.ts";
export { tryLockFile } from "./edit_lock.ts";
export { describeExposure, formatMode, mayOthersWrite, type UsedFile } from "./exposed_files.ts";
export {
  describeReadFailure,
  findExposedFiles,
  ifThere,
  openFile,
  readAt,
  readChunks,
  readNamedFile,
  readNamedText,
  readRegularFile,
  readRegularText,
} from "./files.ts";
