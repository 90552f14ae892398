import { t } from "./language.js";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Readonly<Record<string, string | number | boolean>>} Attributes */

/**
 * Creates an SVG picture. Colors are classes, because the Content-Security-Policy forbids inline styles.
 * @param {Attributes} attributes
 * @param {readonly (readonly [keyof SVGElementTagNameMap, Attributes])[]} parts
 */
export function drawing(attributes, parts) {
  const svg = element("svg", attributes);
  for (const [name, own] of parts) svg.append(element(name, own));
  return svg;
}

/**
 * Creates an SVG element.
 * @template {keyof SVGElementTagNameMap} Name
 * @param {Name} name
 * @param {Attributes} attributes
 */
export function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/**
 * `93 %`.
 *
 * @param {unknown} share
 */
export function percent(share) {
  return typeof share === "number" ? `${Math.round(share * 100)} %` : t("unknown");
}
