// Tasks of operators, each with the clicks and seconds that it takes.

import { picture } from "./browser.mjs";

/** A task at a page: counts clicks, and takes a picture after each. */
export function task(page, name) {
  const begun = Date.now();
  let clicks = 0;
  const shot = () => picture(page, `task-${name}-${clicks}`);
  return {
    /** Clicks, and waits for what the click leads to. */
    async click(locator, then) {
      // Its failure is that of the task, once it is awaited.
      then?.catch(() => {});
      await locator.click();
      clicks += 1;
      await then;
      await shot();
    },
    /** Chooses an option, which counts as two clicks. */
    async choose(select, option) {
      await select.selectOption(option);
      clicks += 2;
    },
    /** Presses a key, which counts as a click. */
    async press(key, then) {
      then?.catch(() => {});
      await page.keyboard.press(key);
      clicks += 1;
      await then;
      await shot();
    },
    /** The first picture: where the task begins. */
    shot,
    /** Says what it took. */
    done() {
      console.log(`        task ${name}: ${clicks} clicks, ${((Date.now() - begun) / 1000).toFixed(1)} s`);
    },
  };
}
