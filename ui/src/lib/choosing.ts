// Owns which entries of its sources a job means: from the fields of a form to the document of the API and to flags of the command.
// Reads no size and no pattern; the node does.
import type { NewJob } from './api';
import { isText, type Name } from './names';

/** The contents of the fields. */
export interface Choosing {
  /** One rule a line: `+ PATTERN` takes, `- PATTERN` or a pattern alone leaves out. */
  rules: string;
  min: string;
  max: string;
  /** Local times. */
  newer: string;
  older: string;
  oneFileSystem: boolean;
  /** One path a line, from the source. */
  list: string;
  recursive: boolean;
}

export const all = (): Choosing => ({ rules: '', min: '', max: '', newer: '', older: '', oneFileSystem: false, list: '', recursive: false });

export type Rule = { include: boolean; pattern: Name };
type Selection = NonNullable<NewJob['selection']>;

const lines = (text: string) => text.split('\n').filter((line) => line.trim() !== '');

function ruleOf(line: string): Rule {
  const text = line.trim();
  const sign = /^([+-]) +(.*)$/.exec(text);
  return sign ? { include: sign[1] === '+', pattern: sign[2]! } : { include: false, pattern: text };
}

const moment = (text: string) => (text ? { seconds: Math.floor(new Date(text).getTime() / 1000) } : null);

/** How many of the fields say something. */
export function count(choosing: Choosing): number {
  return Object.entries(choosing).filter(([name, value]) => (typeof value === 'boolean' ? value && name !== 'recursive' : value.trim() !== '')).length;
}

/** The fields `selection` and `list` of a job; `more` are rules behind those of the form. */
export function selectionOf(choosing: Choosing, more: Rule[]): Pick<NewJob, 'selection' | 'list'> {
  const rules = [...lines(choosing.rules).map(ruleOf), ...more];
  const list = lines(choosing.list);
  const selection: Partial<Selection> = {
    ...(rules.length > 0 ? { rules: rules as Selection['rules'] } : {}),
    ...(choosing.min.trim() ? { bytes_min: choosing.min.trim() } : {}),
    ...(choosing.max.trim() ? { bytes_max: choosing.max.trim() } : {}),
    ...(choosing.newer ? { newer: moment(choosing.newer) } : {}),
    ...(choosing.older ? { older: moment(choosing.older) } : {}),
    ...(choosing.oneFileSystem ? { one_file_system: true } : {}),
    ...(choosing.recursive && list.length > 0 ? { recursive: true } : {}),
  };
  return {
    ...(Object.keys(selection).length > 0 ? { selection: selection as Selection } : {}),
    ...(list.length > 0 ? { list } : {}),
  };
}

/** The flags of the command for it. */
export function flagsOf(selection: NewJob['selection'], quoted: (text: string) => string): string[] {
  const time = (when: { seconds: number }) => new Date(when.seconds * 1000).toISOString();
  const rules = (selection?.rules ?? []) as Rule[];
  return [
    ...rules.flatMap(({ include, pattern }) => (isText(pattern) ? [`--${include ? 'include' : 'exclude'} ${quoted(pattern)}`] : [])),
    ...(selection?.bytes_min != null ? [`--min-size ${quoted(String(selection.bytes_min))}`] : []),
    ...(selection?.bytes_max != null ? [`--max-size ${quoted(String(selection.bytes_max))}`] : []),
    ...(selection?.newer ? [`--newer ${time(selection.newer)}`] : []),
    ...(selection?.older ? [`--older ${time(selection.older)}`] : []),
    ...(selection?.one_file_system ? ['--one-file-system'] : []),
    ...(selection?.recursive ? ['--recursive'] : []),
  ];
}
