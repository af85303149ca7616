// Search in pages that were opened as files: browsers start no worker there, so its script runs in a hidden frame.
// The theme's worker looks for the name IFrameWorker (and would fetch such a script from a server otherwise).
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inner.importScripts = (...urls) => urls.reduce((before, src) => before.then(() => this.load(inner, src)), Promise.resolve());
      this.inner = inner;
      this.ready = this.load(inner, url);
    }
    load(inner, src) {
      return new Promise((resolve, reject) => {
        const script = inner.document.createElement("script");
        script.src = src;
        script.onload = resolve;
        script.onerror = reject;
        inner.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.inner.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
