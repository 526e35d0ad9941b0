// Owns that a table which scrolls sideways can be scrolled by keys: it takes the focus only while it is too wide.
import type { Attachment } from 'svelte/attachments';

export const scrollable: Attachment<HTMLElement> = (element) => {
  const look = () => {
    const scrolls = element.scrollWidth > element.clientWidth;
    if (scrolls === (element.tabIndex === 0)) return;
    if (scrolls) {
      element.tabIndex = 0;
      element.setAttribute('role', 'region');
      element.setAttribute('aria-label', 'Table that scrolls sideways');
    } else {
      for (const name of ['tabindex', 'role', 'aria-label']) element.removeAttribute(name);
    }
  };
  look();
  const observer = new ResizeObserver(look);
  observer.observe(element);
  const table = element.firstElementChild;
  if (table) observer.observe(table);
  return () => observer.disconnect();
};
