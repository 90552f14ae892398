import type { JSX } from "preact";

/** A field to pick one of several values. */
export function Pick({ label, isQuiet = false, name, note, options, picked, onPick }: {
  readonly label: string;
  /** The label is for screen readers only. */
  readonly isQuiet?: boolean;
  readonly name?: string;
  /** The ID of a description. */
  readonly note?: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly picked: string;
  readonly onPick?: (value: string) => void;
}): JSX.Element {
  return (
    <label>
      {isQuiet ? <span class="unseen">{label}</span> : label}
      <select name={name} aria-describedby={note} onChange={(event) => onPick?.(event.currentTarget.value)}>
        {options.map(([value, text]) => (
          <option key={value} value={value} selected={value === picked}>{text}</option>
        ))}
      </select>
    </label>
  );
}

/** A box to check. */
export function Check({ label, name, isOn = false }: {
  readonly label: string;
  readonly name: string;
  readonly isOn?: boolean | undefined;
}): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" name={name} defaultChecked={isOn} />
      {label}
    </label>
  );
}
