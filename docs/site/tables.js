// Tables that are wider than the screen scroll; this lets the keyboard scroll them, too. The theme makes their frames after loading.
const reachable = () => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) frame.tabIndex = 0;
};
new MutationObserver(reachable).observe(document.documentElement, { childList: true, subtree: true });
reachable();
