/** For whoever checks these files: a browser gets the package's own build for browsers, see `page_files.ts`. */
export { default } from "markdown-it/browser";
