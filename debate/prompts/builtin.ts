/**
 * The built-in templates, as texts inside the program.
 *
 * @module
 */
import dataEn from "./builtin/data.en.yaml" with { type: "text" };
import dataEs from "./builtin/data.es.yaml" with { type: "text" };
import defaultEn from "./builtin/default.en.yaml" with { type: "text" };
import defaultEs from "./builtin/default.es.yaml" with { type: "text" };
import errorsEn from "./builtin/errors.en.yaml" with { type: "text" };
import errorsEs from "./builtin/errors.es.yaml" with { type: "text" };
import performanceEn from "./builtin/performance.en.yaml" with { type: "text" };
import performanceEs from "./builtin/performance.es.yaml" with { type: "text" };
import securityEn from "./builtin/security.en.yaml" with { type: "text" };
import securityEs from "./builtin/security.es.yaml" with { type: "text" };

export const BUILTIN_TEXTS: Readonly<Record<string, string>> = {
  "data.en.yaml": dataEn,
  "data.es.yaml": dataEs,
  "default.en.yaml": defaultEn,
  "default.es.yaml": defaultEs,
  "errors.en.yaml": errorsEn,
  "errors.es.yaml": errorsEs,
  "performance.en.yaml": performanceEn,
  "performance.es.yaml": performanceEs,
  "security.en.yaml": securityEn,
  "security.es.yaml": securityEs,
};
