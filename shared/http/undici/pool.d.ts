/**
 * One part of undici: the whole package takes 7 MB more memory.
 *
 * @module
 */
export { Pool as default } from "undici";
