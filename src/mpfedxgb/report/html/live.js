"use strict";
(() => {
  const every = 2000;
  const parts = (report) => [...report.children].map((one) => one.outerHTML);
  let last = parts(document.getElementById("report"));
  const renew = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("report");
      if (found) {
        const now = parts(found), old = document.getElementById("report");
        const open = [...document.querySelectorAll("details[open]")].map((one) => one.id);
        for (const one of found.querySelectorAll("details")) one.open = open.includes(one.id);
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
