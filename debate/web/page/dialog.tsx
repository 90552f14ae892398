import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "./language.ts";

/** A button that opens a dialog. It closes if its title changes, so that nobody confirms another question. */
export function DialogButton({ button, title, verb, isDanger = false, act, children }: {
  /** The attributes and the content of the button. */
  readonly button: JSX.IntrinsicElements["button"];
  readonly title: string;
  /** The name of the button that runs `act`. Without it, the dialog only informs. */
  readonly verb?: string;
  readonly isDanger?: boolean;
  readonly act?: (fields: FormData) => unknown;
  readonly children?: ComponentChildren;
}): JSX.Element {
  // A new object at each click, so that the effect runs again.
  const [asked, ask] = useState<{ readonly title: string }>();
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = asked?.title === title;
  const close = () => dialog.current?.close();
  useLayoutEffect(() => {
    if (isOpen) dialog.current?.showModal();
  }, [asked, isOpen]);
  return (
    <>
      <button type="button" class="quiet" {...button} onClick={() => ask({ title })} />
      {isOpen && (
        <dialog
          class="card"
          ref={dialog}
          aria-labelledby="dialog-title"
          // The event is late: the user can have opened the dialog again.
          onClose={({ currentTarget }) => currentTarget.open || ask(undefined)}
        >
          <form method="dialog" onSubmit={({ currentTarget }) => act?.(new FormData(currentTarget))}>
            <h2 id="dialog-title">{title}</h2>
            {children}
            <div class="actions">
              <button type="button" onClick={close}>{t(verb === undefined ? "Close" : "Cancel")}</button>
              {verb !== undefined && (
                <button type="submit" class={isDanger ? "danger" : "primary"}>{verb}</button>
              )}
            </div>
          </form>
        </dialog>
      )}
    </>
  );
}
