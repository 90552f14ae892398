import type { ComponentChildren, JSX } from "preact";
import { useEffect, useErrorBoundary } from "preact/hooks";
import { t } from "./language.ts";

/**
 * A part of the page whose failure hides no other part: records can be edited, and a server can be newer than the page.
 * New data is a new attempt.
 */
export function Part({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [error, reset] = useErrorBoundary();
  useEffect(() => {
    if (error !== undefined) reset();
  }, [children]);
  return error === undefined
    ? <>{children}</>
    : <p class="warning">{t("This part of the run cannot be shown.")}</p>;
}
