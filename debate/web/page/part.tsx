import type { ComponentChildren, JSX } from "preact";
import { useEffect, useErrorBoundary, useMemo, useState } from "preact/hooks";
import { formatClock } from "./format.ts";
import { t } from "./language.ts";
import { useNow } from "./loaded.ts";
import { timeLeft } from "./summary.ts";

/**
 * A part of the page whose failure hides no other part: records can be edited, and a server can be newer than the page.
 * It is drawn again if a value of `of` changes.
 */
export function Part({ of, show }: {
  readonly of: readonly unknown[];
  readonly show: () => ComponentChildren;
}): JSX.Element {
  const shown = useMemo(show, of);
  const [error, reset] = useErrorBoundary();
  useEffect(() => {
    if (error !== undefined) reset();
  }, [shown]);
  return error === undefined
    ? <>{shown}</>
    : <p class="warning">{t("This part of the run cannot be shown.")}</p>;
}

/** A part with a heading that the user opens and closes. It begins closed, unless `isOpen` is set. */
export function Fold({ id, title, isOpen = false, children }: {
  readonly id?: string;
  readonly title: string;
  readonly isOpen?: boolean;
  readonly children: ComponentChildren;
}): JSX.Element {
  // A constant, so that the browser keeps what the user opens and closes.
  const [wasOpen] = useState(isOpen);
  return (
    <details id={id} class="more" open={wasOpen}>
      <summary>
        <h2>{title}</h2>
      </summary>
      {children}
    </details>
  );
}

/** The time until the server continues without the operator. */
export function TimeLeft({ since, seconds }: {
  readonly since: string | undefined;
  readonly seconds: number;
}): JSX.Element | null {
  const left = timeLeft(since, seconds, useNow(1000));
  return left === undefined
    ? null
    : <span class="count note" role="timer">{t("{time} left", { time: formatClock(left) })}</span>;
}
