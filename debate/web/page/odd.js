/** For type checks and tests only: a browser gets the same constant as a script, see `page_files.ts`. */
export { ODD } from "@gateway/shared/text";
