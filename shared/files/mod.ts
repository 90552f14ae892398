/**
 * Files: bounded reads, atomic writes, locks, exposed modes.
 *
 * @module
 */

export { findLeft, followLink, removeLeft, writeFileAtomic } from "./atomic_file.ts";
export {
  describeReadFailure,
  findExposedFiles,
  formatMode,
  ifThere,
  mayOthersWrite,
  openFile,
  readAt,
  readChunks,
  readNamedFile,
  readNamedText,
  readRegularFile,
  readRegularText,
  tryLockFile,
  type UsedFile,
} from "./files.ts";
