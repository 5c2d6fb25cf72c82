"use strict";
(() => {
  const every = 2000;
  let last = "";
  const renew = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("report");
      if (found && found.innerHTML !== last) {
        last = found.innerHTML;
        const open = [...document.querySelectorAll("details[open]")].map((one) => one.id);
        const old = document.getElementById("report");
        for (const one of found.querySelectorAll("details")) one.open = open.includes(one.id);
        old.replaceWith(document.adoptNode(found));
      }
      document.body.classList.remove("lost");
    } catch {
      document.body.classList.add("lost");
    }
    setTimeout(renew, every);
  };
  setTimeout(renew, every);
})();
