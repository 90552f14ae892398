import { removeMember, setValue, type ValuePath } from "@gateway/shared/config";

/** What flags say of the fields of an entry: absent is not spoken of, empty clears the field. */
export type Fields = Readonly<Record<string, unknown>>;

/** Where an entry is, and whether it is there. */
interface EntryPlace {
  readonly path: ValuePath;
  readonly isNew: boolean;
}

/** The text with the fields in an entry: all else of the entry, comments included, stays as it is. */
export function writeFields(text: string, { path, isNew }: EntryPlace, fields: Fields): string {
  if (isNew) return setValue(text, path, withoutEmpty(fields));
  return Object.entries(fields).reduce((text, [key, value]) => {
    if (value === undefined) return text;
    const place = [...path, key];
    if (isEmpty(value)) return removeMember(text, place);
    return isFields(value)
      ? writeFields(text, { path: place, isNew: false }, value)
      : setValue(text, place, value);
  }, text);
}

/** Only `""` and `[]` say "nothing": `false` and 0 are values that a default could differ from. */
function isEmpty(value: unknown): boolean {
  return value === "" || (Array.isArray(value) && value.length === 0);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withoutEmpty(fields: Fields): Fields {
  const members = Object.entries(fields).flatMap(([key, value]) => {
    if (value === undefined || isEmpty(value)) return [];
    if (!isFields(value)) return [[key, value] as const];
    const inner = withoutEmpty(value);
    return Object.keys(inner).length === 0 ? [] : [[key, inner] as const];
  });
  return Object.fromEntries(members);
}
