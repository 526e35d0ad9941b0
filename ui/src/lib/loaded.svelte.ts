// Owns one answer that a view shows: its value, its error, and reading it again. An error leaves the older value visible, marked as old.
import { type Trouble, trouble } from './api';

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<Trouble | null>(null);
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
      if (turn === this.#turn) this.error = trouble(error);
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  };
}
