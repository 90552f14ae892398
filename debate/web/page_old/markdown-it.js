/** For type checks only: a browser gets the package's own browser build, see `page_files.ts`. */
export { default } from "markdown-it/browser";
