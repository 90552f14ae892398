import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "./language.ts";

/** A dialog, open while it is drawn. At its end, the control that opened it has the focus again. */
export function Dialog({ title, verb, tone = "primary", act, children, onClose }: {
  readonly title: string;
  /** The name of the button that runs `act`. Without it, the dialog only informs. */
  readonly verb?: string;
  readonly tone?: "primary" | "danger";
  readonly act?: (fields: FormData) => unknown;
  readonly children?: ComponentChildren;
  readonly onClose: () => void;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog class="card" ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form method="dialog" onSubmit={({ currentTarget }) => act?.(new FormData(currentTarget))}>
        <h2 id="dialog-title">{title}</h2>
        {children}
        <div class="actions">
          <button type="button" onClick={onClose}>{t(verb === undefined ? "Close" : "Cancel")}</button>
          {verb !== undefined && <button type="submit" class={tone}>{verb}</button>}
        </div>
      </form>
    </dialog>
  );
}
