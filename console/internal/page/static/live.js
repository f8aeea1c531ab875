'use strict';
// Times in the viewer's time zone, pages that update themselves, and a key for the search. The pages work without it.
(() => {
  const zone = new Intl.DateTimeFormat(undefined, {dateStyle: 'short', timeStyle: 'medium'});
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;

  function times(root) {
    if (here === 'UTC') return;
    for (const t of root.querySelectorAll('time')) {
      const own = document.createElement('span');
      own.className = 'zone';
      own.textContent = ' ' + zone.format(new Date(t.dateTime));
      own.title = here;
      t.append(own);
    }
  }

  const main = () => document.getElementById('main');
  const box = document.getElementById('live');

  // Do not replace a page while the user works with it.
  function busy() {
    const at = document.activeElement;
    return document.hidden || !box.checked || String(getSelection()) !== '' || main().querySelector('details[open]') ||
      at && at !== main() && at !== document.body && main().contains(at) && at.matches('input, select, textarea, button');
  }

  async function look() {
    if (busy()) return;
    const answer = await fetch(location.href, {headers: {Accept: 'text/html'}, credentials: 'same-origin', redirect: 'error'});
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html').getElementById('main');
    if (!next || busy() || next.innerHTML === last) return;
    last = next.innerHTML;
    const held = document.activeElement && document.activeElement.href;
    const tables = [...main().querySelectorAll('.wide')].map((w) => [w.scrollLeft, w === document.activeElement]);
    times(next);
    main().replaceChildren(...next.childNodes);
    main().querySelectorAll('.wide').forEach((w, i) => {
      if (!tables[i]) return;
      w.scrollLeft = tables[i][0];
      if (tables[i][1]) w.focus({preventScroll: true});
    });
    for (const a of held ? main().querySelectorAll('a') : []) if (a.href === held) { a.focus(); break; }
  }

  let last = main().innerHTML; // before times are added
  times(document);
  if (box && main().hasAttribute('data-live')) {
    box.parentElement.hidden = false;
    const again = () => setTimeout(() => look().catch(() => {}).then(again), 2000);
    again();
  }
  addEventListener('keydown', (e) => {
    const search = document.querySelector('header input[type=search]');
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || !search || e.target.matches('input, select, textarea')) return;
    e.preventDefault();
    search.focus();
  });
})();
