// Pages opened from a folder (file:) may not start web workers. The worker of the search then runs in a hidden
// frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><title>Search</title><body></body>");
      inside.document.close();
      // Messages are copied, as between threads: objects of the other window are no arrays here.
      inside.postMessage = (data) => {
        const copy = structuredClone(data);
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data: copy })));
      };
      this.loaded = new Promise((loaded, failed) => {
        const script = inside.document.createElement("script");
        script.onload = loaded;
        script.onerror = failed;
        script.src = url;
        inside.document.body.append(script);
      });
      this.loaded.catch(() => this.onerror?.(new ErrorEvent("error", { cancelable: true })));
    }

    postMessage(data) {
      this.loaded.then(() => {
        const inside = this.frame.contentWindow;
        inside?.dispatchEvent(new inside.MessageEvent("message", { data: inside.structuredClone(data) }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
