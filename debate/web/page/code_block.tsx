import type { ComponentChildren, JSX } from "preact";
import { Code, Icon, VisibleText } from "@gateway/shared/ui";
import { t } from "./language.ts";
import { useNotices } from "./notices.tsx";

/** A code block with a button that copies `text`. The children show the text in another form. */
export function CodeBlock(
  { text, children }: { readonly text: string; readonly children?: ComponentChildren },
): JSX.Element {
  return (
    <div class="copyable">
      <Code>{children ?? <VisibleText text={text} lines />}</Code>
      <CopyButton text={text} />
    </div>
  );
}

/** A button that copies `text`. The element before the button shows it. */
export function CopyButton({ text }: { readonly text: string }): JSX.Element {
  const { announce } = useNotices();
  const copy = async (shown: Element | null) => {
    try {
      await navigator.clipboard.writeText(text);
      announce(t("Copied"));
    } catch {
      // Browsers allow the clipboard only with HTTPS or on localhost.
      if (shown !== null) getSelection()?.selectAllChildren(shown);
      announce(t("Selected: copy it with the keyboard"));
    }
  };
  return (
    <button
      type="button"
      class="quiet small copy"
      onClick={({ currentTarget }) => copy(currentTarget.previousElementSibling)}
    >
      <Icon name="copy" />
      <span class="unseen">{t("Copy")}</span>
    </button>
  );
}
