"use strict";
(() => {
  const every = 2000;
  const parts = (report) => [...report.children].map((one) => one.outerHTML);
  // A fold is known by the element with an id that it is, or is in, and by its number there.
  const name = (fold) => {
    const home = fold.closest("[id]");
    return `${home.id} ${[...home.querySelectorAll("details")].indexOf(fold)}`;
  };
  let last = parts(document.getElementById("report"));
  const renew = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("report");
      if (found) {
        const now = parts(found), old = document.getElementById("report");
        const open = new Map([...document.querySelectorAll("details")].map((one) => [name(one), one.open]));
        for (const one of found.querySelectorAll("details")) one.open = open.get(name(one)) ?? one.open;
        if (now.length !== last.length) {
          old.replaceWith(document.adoptNode(found));
        } else {
          const news = [...found.children], shown = [...old.children];
          now.forEach((text, i) => { if (text !== last[i]) shown[i].replaceWith(document.adoptNode(news[i])); });
        }
        last = now;
      }
      document.body.classList.remove("lost");
    } catch {
      document.body.classList.add("lost");
    }
    setTimeout(renew, every);
  };
  setTimeout(renew, every);
})();
