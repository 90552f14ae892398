import type { JSX } from "preact";
import { Icon, type IconName } from "@gateway/shared/ui";

/** A field to pick one of several values. */
export function Pick({ label, icon, isQuiet = false, name, options, picked, onPick }: {
  readonly label: string;
  /** Replaces the visible field. */
  readonly icon?: IconName;
  /** The label is for screen readers only. */
  readonly isQuiet?: boolean;
  readonly name?: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly picked: string;
  /** Returns `false` to keep the value. */
  readonly onPick?: (value: string) => unknown;
}): JSX.Element {
  return (
    <label class={icon && "choice button quiet"} title={icon && label}>
      {isQuiet || icon ? <span class="unseen">{label}</span> : label}
      {icon && <Icon name={icon} />}
      <select
        name={name}
        onChange={({ currentTarget: select }) => {
          if (onPick?.(select.value) === false) select.value = picked;
        }}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === picked}>{text}</option>
        ))}
      </select>
    </label>
  );
}

/** A button to choose files. */
export function FilePick({ label, icon, onPick }: {
  readonly label: string;
  readonly icon: IconName;
  readonly onPick: (files: readonly File[]) => void;
}): JSX.Element {
  return (
    <label class="button">
      <Icon name={icon} />
      {label}
      <input
        class="unseen"
        type="file"
        multiple
        onChange={({ currentTarget: input }) => {
          onPick([...input.files ?? []]);
          // The same file can be chosen again.
          input.value = "";
        }}
      />
    </label>
  );
}
