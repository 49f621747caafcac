// Search runs in a worker, which browsers do not start for pages opened from a folder. There, a hidden frame stands in for it.
// The name of this file keeps Zensical from loading a script for this from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      url = new URL(url, location);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.importScripts = async (...sources) => {
        for (const source of sources) {
          await new Promise((resolve, reject) => {
            const script = inside.document.createElement("script");
            Object.assign(script, { src: new URL(source, url), onload: resolve, onerror: reject });
            inside.document.body.append(script);
          });
        }
      };
      inside.postMessage = (data) => {
        const message = new MessageEvent("message", { data: structuredClone(data) });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      };
      this.ready = inside.importScripts(url);
    }
    postMessage(data) {
      const message = { data: structuredClone(data) };
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", message)));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
