/**
 * Only for type checks and tests. `page_files.ts` generates the script for browsers from the same constant.
 */
export { ODD as HIDDEN } from "@gateway/shared/text";
