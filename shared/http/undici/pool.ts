/**
 * A part of undici: the whole package takes 7 MB more memory. This module exists because a bundle changes the default
 * export of a CommonJS module that is imported dynamically.
 *
 * @module
 */
// @ts-types="./pool.d.ts"
export { default as Pool } from "undici/lib/dispatcher/pool.js";
