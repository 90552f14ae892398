import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { t } from "./language.ts";
import { useNotices } from "./notices.tsx";

const SHOWN_MS = 2000;

/** A code block with a button that copies `text`. The children show the text in another form. */
export function CodeBlock(
  { text, children }: { readonly text: string; readonly children?: ComponentChildren },
): JSX.Element {
  const block = useRef<HTMLPreElement>(null);
  return (
    <div class="copyable">
      <pre
        class="code"
        tabIndex={0}
        ref={block}
      ><code>{children ?? <VisibleText text={text} lines />}</code></pre>
      <CopyButton text={text} shownIn={block} />
    </div>
  );
}

/** A button that copies `text`, or selects the element that shows it if the browser does not allow that. */
export function CopyButton(
  { text, shownIn }: { readonly text: string; readonly shownIn?: RefObject<HTMLElement | null> },
): JSX.Element {
  const { announce } = useNotices();
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(say, SHOWN_MS, "");
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (event: MouseEvent) => {
    const button = event.currentTarget;
    const place = shownIn?.current ?? (button instanceof HTMLElement ? button.parentElement : null);
    const result = await copyOrSelect(text, place) ? t("Copied") : t("Selected: copy it with the keyboard");
    say(result);
    announce(result);
  };
  return (
    <button type="button" class="quiet copy" onClick={copy}>
      <Icon name={said === "" ? "copy" : "check"} />
      <span class={said === "" ? "unseen" : ""}>{said === "" ? t("Copy") : said}</span>
    </button>
  );
}

/** Browsers allow the clipboard only with HTTPS or on localhost. Otherwise, the text is selected. */
async function copyOrSelect(text: string, block: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (block !== null) getSelection()?.selectAllChildren(block);
    return false;
  }
}
