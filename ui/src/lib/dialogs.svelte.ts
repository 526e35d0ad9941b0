// Owns the questions and the short messages of the page: one dialog at a time, one message at a time.
import type { Trouble } from './api';

export interface Question {
  title: string;
  /** The consequence of the action. */
  text: string;
  action: string;
  danger?: boolean;
}

/** A field of a form. */
export interface Field {
  name: string;
  label: string;
  kind: 'text' | 'password' | 'number' | 'select' | 'flag' | 'lines' | 'time' | 'checks';
  help?: string;
  required?: boolean;
  options?: { value: string; label: string }[];
  value?: string | boolean | string[];
  placeholder?: string;
  fixed?: boolean;
  /** Only a value of this form is taken. */
  pattern?: string;
  min?: number;
  /** The value that a password manager may fill in; a new password if it is left out. */
  autocomplete?: 'current-password';
}

export type Values = Record<string, string | boolean | string[]>;

export interface Form {
  title: string;
  text?: string;
  fields: Field[];
  action: string;
  /** Sends the form; an error stays in the dialog. */
  send: (values: Values) => Promise<void>;
}

class Dialogs {
  question = $state.raw<(Question & { answer: (yes: boolean) => void }) | null>(null);
  form = $state.raw<Form | null>(null);
  message = $state<(Trouble & { kind: 'good' | 'bad' }) | null>(null);
  #timer: ReturnType<typeof setTimeout> | undefined;

  ask(question: Question): Promise<boolean> {
    return new Promise((resolve) => {
      this.question = {
        ...question,
        answer: (yes) => {
          this.question = null;
          resolve(yes);
        },
      };
    });
  }

  open(form: Form): void {
    this.form = form;
  }

  say(what: string | Trouble, kind: 'good' | 'bad' = 'good'): void {
    clearTimeout(this.#timer);
    this.message = { ...(typeof what === 'string' ? { text: what } : what), kind };
    // An error stays until it is closed.
    if (kind === 'good') this.#timer = setTimeout(() => (this.message = null), 6_000);
  }
}

export const dialogs = new Dialogs();
