// Owns the time axis of plots: values for all of a chosen span, and labels that do not overlap. Draws nothing.
import { moment } from './format';

/** The least distance of two labels in pixels: a date in the font of the plots is 64 wide. */
export const LABEL_SPACE = 80;

/** The labels of ticks in seconds: the time of day and, if they are of several days, the date where a day begins. */
export function tickLabels(ticks: number[]): string[] {
  const texts = ticks.map((at) => moment(at * 1000));
  const days = texts.map((text) => text.slice(0, 10));
  const isOfOne = new Set(days).size < 2;
  return texts.map((text, index) => {
    const time = text.slice(11, 19);
    return isOfOne || days[index] === days[index - 1] ? time : `${time}\n${days[index]}`;
  });
}

/** The last values, as many as asked for. Values before the first one are gaps. */
export function lastValues(values: (number | null)[], wanted: number): (number | null)[] {
  const kept = values.slice(Math.max(0, values.length - wanted));
  return [...Array<null>(wanted - kept.length).fill(null), ...kept];
}

/** The part of a plot that the reader chose by dragging; null for all of it. */
export function zoomOf(times: ArrayLike<number>, shown: { min?: number | null; max?: number | null }): { min: number; max: number } | null {
  const [first, last] = [times[0], times[times.length - 1]];
  const { min, max } = shown;
  if (first === undefined || last === undefined || min == null || max == null) return null;
  return min > first || max < last ? { min, max } : null;
}
