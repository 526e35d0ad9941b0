// Owns one answer that a view shows: its value, its error, and reading it again. An error leaves the older value visible, marked as old.
import { words } from './api';

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  busy = $state(false);
  #read: () => Promise<T>;
  #turn = 0;

  constructor(read: () => Promise<T>) {
    this.#read = read;
  }

  load = async (): Promise<void> => {
    const turn = ++this.#turn;
    this.busy = true;
    try {
      const value = await this.#read();
      if (turn !== this.#turn) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (turn === this.#turn) this.error = words(error);
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  };
}
