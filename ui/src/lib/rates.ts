// Owns the recent rates of one job, and the time left that follows from them as a range.

/** Rates over this time count: longer than a pause of the path, shorter than a change of the load. */
const WINDOW_MS = 120_000;

/** Each rate is taken over at least this time: single seconds say little. */
const STEP_MS = 5_000;

export class Rates {
  #points: { at: number; bytes: number }[] = [];
  #limit: number | null | undefined;

  /** The limit of the job, in bytes per second. A change starts the window again: rates under another limit tell nothing. */
  limit(limit: number | null): void {
    if (this.#limit !== undefined && this.#limit !== limit) this.#points = [];
    this.#limit = limit;
  }

  add(at: number, bytes: number): void {
    const last = this.#points.at(-1);
    if (last && bytes < last.bytes) this.#points = [];
    if (last && at - last.at < STEP_MS && this.#points.length > 0) return;
    this.#points.push({ at, bytes });
    while (this.#points.length > 0 && at - this.#points[0]!.at > WINDOW_MS) this.#points.shift();
  }

  /** Shortest and longest time for so many bytes, in seconds. None before three rates are known, or where nothing moves. */
  left(bytes: number): [number, number] | null {
    const rates: number[] = [];
    for (let i = 1; i < this.#points.length; i++) {
      const [before, after] = [this.#points[i - 1]!, this.#points[i]!];
      rates.push((after.bytes - before.bytes) / ((after.at - before.at) / 1000));
    }
    if (rates.length < 3) return null;
    rates.sort((a, b) => a - b);
    const quartile = (share: number) => rates[Math.round((rates.length - 1) * share)]!;
    const [slow, fast] = [quartile(0.25), quartile(0.75)];
    if (slow <= 0) return null;
    return [bytes / fast, bytes / slow];
  }
}
