import type { JSX, RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import { Icon, VisibleText } from "@gateway/shared/ui";
import { t } from "./language.ts";

interface Chosen {
  readonly input: HTMLInputElement;
  readonly file: File;
}

/** The chosen files of a new run. The file fields of the form have them. */
export interface Files {
  readonly all: readonly Chosen[];
  readonly incident: RefObject<HTMLInputElement | null>;
  readonly context: RefObject<HTMLInputElement | null>;
  update(): void;
  /** The first dropped file describes the incident, the others are context. */
  drop(dropped: readonly File[]): void;
  remove(chosen: Chosen): void;
}

export function useFiles(): Files {
  const incident = useRef<HTMLInputElement>(null);
  const context = useRef<HTMLInputElement>(null);
  const [all, setAll] = useState<readonly Chosen[]>([]);
  const update = () =>
    setAll(
      [incident.current, context.current].flatMap((input) =>
        input === null ? [] : [...input.files ?? []].map((file) => ({ input, file }))
      ),
    );
  const drop = (dropped: readonly File[]) => {
    const isFree = incident.current?.files?.length === 0;
    if (isFree) choose(incident.current, dropped.slice(0, 1));
    choose(context.current, [...context.current?.files ?? [], ...dropped.slice(isFree ? 1 : 0)]);
    update();
  };
  const remove = ({ input, file }: Chosen) => {
    choose(input, [...input.files ?? []].filter((each) => each !== file));
    update();
    input.focus();
  };
  return { all, incident, context, update, drop, remove };
}

function choose(input: HTMLInputElement | null, files: readonly File[]): void {
  if (input === null) return;
  const list = new DataTransfer();
  for (const file of files) list.items.add(file);
  input.files = list.files;
}

/** The chosen files, each with a button that removes it. */
export function FileList({ files }: { readonly files: Files }): JSX.Element | null {
  if (files.all.length === 0) return null;
  return (
    <ul class="files" aria-label={t("Attached files")}>
      {files.all.map((chosen) => (
        <li key={`${chosen.input.name} ${chosen.file.name}`}>
          <VisibleText text={chosen.file.name} limit={80} />
          <span class="note">{chosen.input.multiple ? t("context") : t("incident")}</span>
          <button
            type="button"
            class="quiet small"
            aria-label={t("Remove {name}", { name: chosen.file.name })}
            onClick={() => files.remove(chosen)}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
}
