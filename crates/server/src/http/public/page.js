(function () {
  "use strict";
  // All words are on the page, so that a page in another language needs no other script.
  var page = document, token = page.body.dataset.token, asked = false;
  function fill(name, text) {
    page.querySelectorAll('[data-fill="' + name + '"]').forEach(function (place) {
      place.textContent = text;
    });
  }
  // The visitor's way to write a date, if it is in the language of the page.
  function when(time) {
    var own = page.documentElement.lang, all = navigator.languages || [];
    var language = all.find(function (name) { return name.split("-")[0] === own; }) || own;
    return new Date(time).toLocaleString(language, {dateStyle: "long", timeStyle: "short"});
  }
  function show(id) {
    page.querySelectorAll("section").forEach(function (section) {
      section.hidden = section.id !== id;
    });
    page.title = page.querySelector("#" + id + " h1").textContent;
  }
  function tell(answer) {
    fill("scans", answer.scans);
    if (answer.first_scanned_at) fill("first", when(answer.first_scanned_at));
    if (answer.void) fill("reason", answer.void.reason);
    show(answer.verdict);
  }
  function ask() {
    fetch(location.href, {
      method: "POST",
      headers: {"Accept": "application/json", "Content-Type": "application/json"},
      body: JSON.stringify({token: token})
    }).then(function (reply) {
      if (reply.status === 429) return show("limited");
      if (!reply.ok) return show("failed");
      return reply.json().then(tell);
    }).catch(function () {
      show("failed");
    });
  }
  // Browsers load pages that nobody looks at yet, and those do not count.
  function once() {
    if (asked || page.prerendering || page.visibilityState !== "visible") return;
    asked = true;
    ask();
  }
  if (!token) return;
  page.addEventListener("visibilitychange", once);
  page.addEventListener("prerenderingchange", once);
  once();
})();
