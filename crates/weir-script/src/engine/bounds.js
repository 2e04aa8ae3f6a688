// Built-ins whose work grows with their input. QuickJS asks the watch only at calls and branches of
// a script, so that a built-in which loops by itself is not interrupted: it is replaced by one that
// accounts for its work first, and that returns to the script between pieces of a large one.
// Evaluated once an engine, before any script. The originals are reachable from here only.
//
// Costs are nanoseconds on a slow machine. What is not replaced is listed in `bounds/tests.rs`.
(function (native) {
  "use strict";
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf, setPrototypeOf } = Object;
  const { apply, construct } = Reflect;
  const { isArray } = Array;
  const [NativeRegExp, NativeSet, NativeProxy] = [RegExp, Set, Proxy];
  const { floor, log2, min, max } = Math;

  /** Cost after which the clock is asked. */
  const SLICE = 1e6;
  /** Most steps of a search that one call of a built-in makes. */
  const SEARCH = 5e6;
  /** Longest text for a pattern that refers back: each of its steps compares up to all of it. */
  const REFERRED = 1 << 15;
  /** Longest pattern that is made of a text, and most classes in it. */
  const [PATTERN, CLASSES] = [1 << 14, 256];
  /** Most digits of a BigInt that are read or written, whose cost is their square. */
  const DIGITS = 20_000;
  /** Longest text that is compiled. */
  const CODE = 1 << 16;
  /** Most marks in a row that are sorted when a text is normalised, by an insertion sort. */
  const MARKS = 64;
  /** Longest array: one without holes takes 16 bytes an element. */
  const LENGTH = native.longest;

  let left = SLICE;
  /** Accounts for work. */
  function spend(cost) {
    left -= cost;
    if (left < 0) due();
  }
  function due() {
    left = SLICE;
    // A loop is what the engine interrupts, and no script can catch that.
    if (native.isOver()) for (;;);
  }

  /** Puts methods in place of built-ins, with their names and numbers of arguments. */
  function replace(owner, methods) {
    for (const key of Reflect.ownKeys(methods)) {
      const before = getOwnPropertyDescriptor(owner, key);
      if (before === undefined) continue;
      const method = methods[key];
      for (const part of ["name", "length"]) {
        const value = before.value[part];
        defineProperty(method, part, { value, configurable: true });
      }
      defineProperty(owner, key, { ...before, value: method });
    }
  }

  /** Replaces methods by ones that account for what `cost` gives, of `this` and the arguments. */
  function charge(owner, names, cost) {
    for (const name of names) {
      const original = owner[name];
      replace(owner, {
        [name](...rest) {
          spend(cost(this, rest));
          return apply(original, this, rest);
        },
      });
    }
  }

  /** Replaces methods whose work is known only when it is done. */
  function timed(owner, names) {
    for (const name of names) {
      const original = owner[name];
      replace(owner, {
        [name](...rest) {
          const result = apply(original, this, rest);
          due();
          return result;
        },
      });
    }
  }

  // ---- texts

  const text = String.prototype;
  const { indexOf, lastIndexOf, slice, split, replace: replaced, replaceAll, normalize } = text;
  const { localeCompare, match, matchAll, search } = text;

  function textOf(self) {
    if (typeof self === "string") return self;
    if (self === null || self === undefined) throw new TypeError("cannot convert to object");
    return `${self}`;
  }

  function whole(value, fallback) {
    if (value === undefined) return fallback;
    const number = Number(value);
    return number !== number ? 0 : number;
  }

  /** Where `part` is in `all`, from there on. What would take too long is searched in pieces. */
  function find(all, part, from) {
    const [length, long] = [all.length, part.length];
    const steps = (length - from) * long;
    if (steps <= SEARCH) {
      spend(steps);
      return indexOf.call(all, part, from);
    }
    const width = max(1, floor(SEARCH / long));
    for (let at = from; at + long <= length; at += width) {
      spend(width * long);
      const found = indexOf.call(slice.call(all, at, at + width + long - 1), part);
      if (found >= 0) return at + found;
    }
    return -1;
  }

  function findLast(all, part, from) {
    const long = part.length;
    const width = max(1, floor(SEARCH / max(1, long)));
    for (let end = min(from, all.length - long); end >= 0; end -= width) {
      const start = max(0, end - width + 1);
      spend((end - start + 1) * max(1, long));
      const found = lastIndexOf.call(slice.call(all, start, end + long), part);
      if (found >= 0) return start + found;
    }
    return -1;
  }

  function needle(part) {
    if (typeof part === "string") return part;
    if (part !== null && typeof part === "object") {
      const matcher = part[Symbol.match];
      if (matcher === undefined ? part instanceof NativeRegExp : matcher) {
        throw new TypeError("regexp not supported");
      }
    }
    return `${part}`;
  }

  /** What a pattern or another object does itself; undefined if it is a text that is searched. */
  function delegated(self, part, key, argument) {
    if (part === null || typeof part !== "object") return undefined;
    const method = part[key];
    if (method === undefined || method === null) return undefined;
    if (self === null || self === undefined) throw new TypeError("cannot convert to object");
    return [apply(method, part, argument === NONE ? [self] : [self, argument])];
  }
  const NONE = {};

  /** Cost of finding every occurrence of a part; true if it is to be done in pieces. */
  const isLong = (all, part) => {
    const steps = all.length * max(1, part.length);
    spend(min(steps, SEARCH) + all.length * 4);
    return steps > SEARCH && part.length > 1;
  };

  /** Where a part is, each time. */
  function places(all, part, most) {
    const found = [];
    for (let at = find(all, part, 0); at >= 0 && found.length < most;) {
      found[found.length] = at;
      at = find(all, part, at + part.length);
    }
    return found;
  }

  /** What takes the place of the occurrences at these places. */
  function substituted(all, part, at, by) {
    let [result, end] = ["", 0];
    for (let i = 0; i < at.length; i++) {
      const own = typeof by === "function" ? `${by(part, at[i], all)}`
        // The original expands `$&` and the like, with a subject that is no longer than the part.
        : indexOf.call(by, "$") < 0 ? by
        : expanded(all, part, at[i], by);
      result += slice.call(all, end, at[i]) + own;
      end = at[i] + part.length;
    }
    return result + slice.call(all, end);
  }

  function expanded(all, part, at, by) {
    const parts = {
      $: () => "$",
      "&": () => part,
      "`": () => slice.call(all, 0, at),
      "'": () => slice.call(all, at + part.length),
    };
    let result = "";
    for (let i = 0; i < by.length; i++) {
      const own = by[i] === "$" ? parts[by[i + 1]] : undefined;
      if (own === undefined) result += by[i];
      else [result, i] = [result + own(), i + 1];
    }
    return result;
  }

  /** A pattern for what is no pattern; made here, where its length is looked at. */
  const patternOf = (part, flags) => new RegExp(part === undefined ? "" : part, flags);
  const isObject = (value) => value !== null && typeof value === "object";

  replace(text, {
    includes(part, from) {
      const [all, sought] = [textOf(this), needle(part)];
      return find(all, sought, min(max(floor(whole(from, 0)), 0), all.length)) >= 0;
    },
    indexOf(part, from) {
      const [all, sought] = [textOf(this), typeof part === "string" ? part : `${part}`];
      return find(all, sought, min(max(floor(whole(from, 0)), 0), all.length));
    },
    lastIndexOf(part, from) {
      const [all, sought] = [textOf(this), `${part}`];
      const number = from === undefined ? NaN : Number(from);
      return findLast(all, sought, number !== number ? all.length : max(0, floor(number)));
    },
    split(part, limit) {
      const own = delegated(this, part, Symbol.split, limit);
      if (own !== undefined) return own[0];
      const all = textOf(this);
      const most = limit === undefined ? 2 ** 32 - 1 : limit >>> 0;
      if (part === undefined) return most === 0 ? [] : [all];
      const by = `${part}`;
      if (!isLong(all, by)) return split.call(all, by, most);
      const at = places(all, by, most);
      const pieces = [];
      for (let i = 0; i <= at.length && i < most; i++) {
        pieces[i] = slice.call(all, i === 0 ? 0 : at[i - 1] + by.length, at[i]);
      }
      return pieces;
    },
    replace(part, by) {
      const own = delegated(this, part, Symbol.replace, by);
      if (own !== undefined) return own[0];
      const [all, sought] = [textOf(this), `${part}`];
      if (!isLong(all, sought)) return replaced.call(all, sought, by);
      const at = find(all, sought, 0);
      return substituted(all, sought, at < 0 ? [] : [at], typeof by === "function" ? by : `${by}`);
    },
    replaceAll(part, by) {
      if (isObject(part) && part instanceof NativeRegExp && find(`${part.flags}`, "g", 0) < 0) {
        throw new TypeError("regexp must have the 'g' flag");
      }
      const own = delegated(this, part, Symbol.replace, by);
      if (own !== undefined) return own[0];
      const [all, sought] = [textOf(this), `${part}`];
      if (!isLong(all, sought)) return replaceAll.call(all, sought, by);
      const at = places(all, sought, Infinity);
      return substituted(all, sought, at, typeof by === "function" ? by : `${by}`);
    },
    match(part) {
      if (!isObject(part)) part = patternOf(part, "");
      return match.call(this, part);
    },
    matchAll(part) {
      if (!isObject(part)) part = patternOf(part, "g");
      return matchAll.call(this, part);
    },
    search(part) {
      if (!isObject(part)) part = patternOf(part, "");
      return search.call(this, part);
    },
    normalize(form) {
      const all = sortable(textOf(this));
      return form === undefined ? normalize.call(all) : normalize.call(all, form);
    },
    localeCompare(other) {
      return localeCompare.call(sortable(textOf(this)), sortable(`${other}`));
    },
  });

  /** Cost of a text in full, and of what is put to it. */
  const byText = (cost) => (self, rest) => {
    let length = typeof self === "string" ? self.length : 1e4;
    for (let i = 0; i < rest.length; i++) {
      if (typeof rest[i] === "string") length += rest[i].length;
    }
    return 20 + length * cost;
  };
  charge(text, [
    "concat", "endsWith", "startsWith", "slice", "substring", "substr", "trim", "trimStart",
    "trimEnd", "trimLeft", "trimRight", "isWellFormed", "toWellFormed", "anchor", "big", "blink",
    "bold", "fixed", "fontcolor", "fontsize", "italics", "link", "small", "strike", "sub", "sup",
  ], byText(1));
  charge(text, [
    "toLowerCase", "toUpperCase", "toLocaleLowerCase", "toLocaleUpperCase",
  ], byText(30));
  charge(text, ["padStart", "padEnd"], (self, rest) => min(Number(rest[0]) || 0, 1e9));
  charge(text, ["repeat"], (self, rest) => min(`${self}`.length * (Number(rest[0]) || 0), 1e9));
  charge(String, ["raw", "fromCharCode", "fromCodePoint"], (self, rest) => 50 * rest.length);
  for (const name of [
    "decodeURI", "decodeURIComponent", "encodeURI", "encodeURIComponent", "escape", "unescape",
    "atob", "btoa",
  ]) {
    charge(globalThis, [name], byText(20));
  }
  for (const name of ["parseInt", "parseFloat"]) {
    charge(Number, [name], byText(2));
    defineProperty(globalThis, name, { ...getOwnPropertyDescriptor(Number, name) });
  }
  charge(Date, ["parse"], byText(2));
  charge(Symbol, ["for"], byText(4));

  // ---- patterns

  const { exec } = NativeRegExp.prototype;
  const sourceOf = getOwnPropertyDescriptor(NativeRegExp.prototype, "source").get;
  const [REFERS, CLASS] = [/\\(?:[1-9]|k<)/, /\[|\\[pP]/g];
  const RUN = new NativeRegExp(`\\p{M}{${MARKS}}`, "u");
  const refers = new WeakMap();

  function isReferring(pattern) {
    let known = refers.get(pattern);
    if (known === undefined) {
      known = exec.call(REFERS, apply(sourceOf, pattern, [])) !== null;
      refers.set(pattern, known);
    }
    return known;
  }

  /** A text whose marks are few enough in a row to be sorted. */
  function sortable(all) {
    spend(all.length * 400);
    if (all.length > MARKS && exec.call(RUN, all) !== null) {
      throw new RangeError(`a text with ${MARKS} or more combining marks in a row`);
    }
    return all;
  }

  function checkedPattern(pattern, flags) {
    const source = isObject(pattern) ? pattern.source : pattern;
    if (source !== undefined) {
      const text = `${source}`;
      if (text.length > PATTERN) throw new RangeError(`a pattern of more than ${PATTERN} characters`);
      let classes = 0;
      for (CLASS.lastIndex = 0; exec.call(CLASS, text) !== null;) classes++;
      spend(text.length * 500 + classes * 20_000);
      if (classes > CLASSES) throw new RangeError(`a pattern with more than ${CLASSES} classes`);
      if (!isObject(pattern)) pattern = text;
    }
    return flags === undefined ? [pattern] : [pattern, flags];
  }

  /** Puts a constructor in the place of another. */
  function inPlaceOf(original, made) {
    const prototype = original.prototype;
    for (const key of Reflect.ownKeys(original)) {
      defineProperty(made, key, getOwnPropertyDescriptor(original, key));
    }
    setPrototypeOf(made, getPrototypeOf(original));
    if (prototype !== undefined && prototype !== null) {
      const before = getOwnPropertyDescriptor(prototype, "constructor");
      if (before !== undefined) {
        defineProperty(prototype, "constructor", { ...before, value: made });
      }
    }
    const before = getOwnPropertyDescriptor(globalThis, original.name);
    if (before !== undefined && before.value === original) {
      defineProperty(globalThis, original.name, { ...before, value: made });
    }
  }

  inPlaceOf(NativeRegExp, function RegExp(pattern, flags) {
    if (new.target === undefined && pattern instanceof NativeRegExp && flags === undefined) {
      return pattern;
    }
    return construct(NativeRegExp, checkedPattern(pattern, flags), new.target ?? NativeRegExp);
  });
  const { compile } = NativeRegExp.prototype;
  replace(NativeRegExp.prototype, {
    exec(subject) {
      if (typeof subject !== "string") subject = `${subject}`;
      // At most that many steps are made before the engine asks by itself.
      spend(20_000);
      if (subject.length > REFERRED && isReferring(this)) {
        throw new RangeError(`a pattern that refers back, and more than ${REFERRED} characters`);
      }
      return exec.call(this, subject);
    },
    compile(pattern, flags) {
      refers.delete(this);
      return apply(compile, this, checkedPattern(pattern, flags));
    },
    [Symbol.split](subject, limit) {
      const all = `${subject}`;
      const most = limit === undefined ? 2 ** 32 - 1 : limit >>> 0;
      const flags = `${this.flags}`;
      const kind = this.constructor?.[Symbol.species] ?? RegExp;
      // Without `y` the next match is found by the pattern, and need not be tried at every place.
      const others = replaceAll.call(replaceAll.call(flags, "y", ""), "g", "");
      const splitter = new kind(this, `${others}g`);
      const pieces = [];
      if (most === 0) return pieces;
      let [end, from] = [0, 0];
      while (from < all.length || all.length === 0) {
        splitter.lastIndex = from;
        const found = splitter.exec(all);
        if (all.length === 0) return found === null ? [all] : pieces;
        if (found === null || found.index >= all.length) break;
        const over = min(splitter.lastIndex, all.length);
        if (over === end) {
          from = max(found.index, end) + 1;
          continue;
        }
        pieces[pieces.length] = slice.call(all, end, found.index);
        for (let i = 1; i < found.length && pieces.length < most; i++) {
          pieces[pieces.length] = found[i];
        }
        if (pieces.length >= most) return pieces;
        [end, from] = [over, over];
      }
      pieces[pieces.length] = slice.call(all, end);
      return pieces;
    },
  });
  charge(RegExp, ["escape"], byText(10));

  // ---- arrays

  const array = Array.prototype;
  const originals = {};
  for (const name of Reflect.ownKeys(array)) {
    if (typeof array[name] === "function") originals[name] = array[name];
  }
  const proxies = new WeakSet();
  let areProxies = false;

  function proxied(proxy) {
    areProxies = true;
    proxies.add(proxy);
    return proxy;
  }
  function Proxied(target, handler) {
    if (new.target === undefined) throw new TypeError("constructor requires 'new'");
    return proxied(new NativeProxy(target, handler));
  }
  defineProperty(Proxied, "name", { value: "Proxy", configurable: true });
  const { revocable } = NativeProxy;
  inPlaceOf(NativeProxy, Proxied);
  Proxied.prototype = undefined;
  replace(Proxied, {
    revocable(target, handler) {
      const made = revocable(target, handler);
      proxied(made.proxy);
      return made;
    },
  });

  const isPlain = (value) => isArray(value) && !(areProxies && proxies.has(value));

  function checkedLength(length) {
    if (length > LENGTH) throw new RangeError(`an array of more than ${LENGTH} elements`);
    return length;
  }

  /** An array whose length does not change: this one, or a copy of something like one. */
  function arrayOf(self, cost) {
    if (isPlain(self)) {
      spend(checkedLength(self.length) * cost);
      return self;
    }
    if (self === null || self === undefined) throw new TypeError("cannot convert to object");
    const object = Object(self);
    const length = checkedLength(min(max(floor(Number(object.length)) || 0, 0), 2 ** 53 - 1));
    const copy = [];
    copy.length = length;
    for (let i = 0; i < length; i++) if (i in object) copy[i] = object[i];
    return copy;
  }

  /** Methods that change nothing. */
  function reading(names, cost) {
    for (const name of names) {
      const original = array[name];
      replace(array, {
        [name](...rest) {
          return apply(original, arrayOf(this, cost), rest);
        },
      });
    }
  }
  /** Methods that change what they are called on; something like an array is changed by parts. */
  function changing(names, cost) {
    for (const name of names) {
      const original = array[name];
      replace(array, {
        [name](...rest) {
          return changed(this, arrayOf(this, cost), (own) => apply(original, own, rest));
        },
      });
    }
  }
  function changed(self, own, change) {
    const result = change(own);
    if (own === self) return result;
    const before = self.length;
    for (let i = 0; i < own.length; i++) if (i in own) self[i] = own[i];
    for (let i = own.length; i < before; i++) delete self[i];
    self.length = own.length;
    return result === own ? self : result;
  }

  reading([
    "every", "filter", "find", "findIndex", "findLast", "findLastIndex", "forEach", "map", "reduce",
    "reduceRight", "some", "join", "toLocaleString", "slice", "toReversed", "toSpliced", "with",
  ], 8);
  changing(["copyWithin", "fill", "reverse", "shift", "splice", "unshift"], 8);

  /** Looks for a value; texts and large numbers are compared one by one. */
  function seeking(name, isSame, backwards) {
    const original = array[name];
    replace(array, {
      [name](...rest) {
        const own = arrayOf(this, 8);
        const value = rest[0];
        const long = typeof value === "string" ? value.length : typeof value === "bigint" ? 1e4 : 1;
        if (own.length * long <= SEARCH) {
          spend(own.length * long);
          return apply(original, own, rest);
        }
        let from = rest.length > 1 ? floor(Number(rest[1])) || 0 : backwards ? own.length - 1 : 0;
        if (from < 0) from = backwards ? own.length + from : max(0, own.length + from);
        if (backwards) from = min(from, own.length - 1);
        for (let i = from; backwards ? i >= 0 : i < own.length; i += backwards ? -1 : 1) {
          spend(typeof own[i] === typeof value ? long : 1);
          if (own[i] === value) return isSame ? true : i;
        }
        return isSame ? false : -1;
      },
    });
  }
  seeking("includes", true, false);
  seeking("indexOf", false, false);
  seeking("lastIndexOf", false, true);

  /** By the texts of two values, as an array is sorted. */
  function byTexts(a, b) {
    const [one, other] = [`${a}`, `${b}`];
    spend(min(one.length, other.length));
    return one < other ? -1 : one > other ? 1 : 0;
  }
  /** Cost of sorting texts and numbers; Infinity if there is anything else. */
  function sortCost(own) {
    let longest = 24;
    for (let i = 0; i < own.length; i++) {
      const value = own[i];
      if (typeof value === "string") longest = max(longest, value.length);
      else if (typeof value !== "number") return Infinity;
    }
    return own.length * log2(own.length + 1) * (longest + 20);
  }
  function sorted(own, compare) {
    if (compare === undefined) {
      const cost = sortCost(own);
      if (cost > 10 * SEARCH) return originals.sort.call(own, byTexts);
      spend(cost);
      return originals.sort.call(own);
    }
    if (typeof compare !== "function") throw new TypeError("not a function");
    // A built-in as comparator would be called without the engine ever asking.
    return originals.sort.call(own, own.length > 1000 ? (a, b) => compare(a, b) : compare);
  }
  replace(array, {
    sort(compare) {
      return changed(this, arrayOf(this, 100), (own) => sorted(own, compare));
    },
    toSorted(compare) {
      if (compare !== undefined && typeof compare !== "function") {
        throw new TypeError("not a function");
      }
      const own = arrayOf(this, 100);
      const copy = [];
      for (let i = 0; i < own.length; i++) copy[i] = own[i];
      return sorted(copy, compare);
    },
    concat(...items) {
      let length = 0;
      for (let i = -1; i < items.length; i++) {
        const item = i < 0 ? this : items[i];
        if (!isObject(item)) continue;
        const spread = item[Symbol.isConcatSpreadable];
        if (spread === undefined ? !isArray(item) : !spread) continue;
        const own = arrayOf(item, 8);
        length += own.length;
        if (own !== item && i >= 0) items[i] = own;
      }
      checkedLength(length);
      const own = isArray(this) && !isPlain(this) ? arrayOf(this, 8) : this;
      return apply(originals.concat, own, items);
    },
    flat(depth) {
      const result = [];
      flattened(result, arrayOf(this, 8), depth === undefined ? 1 : Number(depth) || 0);
      return result;
    },
    flatMap(callback, self) {
      if (typeof callback !== "function") throw new TypeError("not a function");
      const own = arrayOf(this, 8);
      const result = [];
      for (let i = 0; i < own.length; i++) {
        if (!(i in own)) continue;
        const value = apply(callback, self, [own[i], i, this]);
        if (isArray(value)) flattened(result, arrayOf(value, 8), 0);
        else result[result.length] = value;
      }
      return result;
    },
  });
  function flattened(result, own, depth) {
    for (let i = 0; i < own.length; i++) {
      if (!(i in own)) continue;
      const value = own[i];
      if (depth >= 1 && isArray(value)) flattened(result, arrayOf(value, 8), depth - 1);
      else result[result.length] = value;
    }
  }
  replace(Array, {
    from(items, map, self) {
      if (map !== undefined && typeof map !== "function") throw new TypeError("not a function");
      const isOther = typeof this === "function" && this !== Array;
      if (items === null || items === undefined) throw new TypeError("cannot convert to object");
      const iterates = items[Symbol.iterator] !== undefined && items[Symbol.iterator] !== null;
      const source = iterates ? items : arrayOf(items, 8);
      const result = isOther ? new this(...(iterates ? [] : [source.length])) : [];
      let at = 0;
      for (const item of source) {
        const value = map === undefined ? item : apply(map, self, [item, at]);
        defineProperty(result, at++, {
          value, writable: true, enumerable: true, configurable: true,
        });
      }
      if (isOther) result.length = at;
      return result;
    },
  });

  // ---- arrays of numbers

  const typed = getPrototypeOf(Uint8Array.prototype);
  const numbers = getOwnPropertyDescriptor(typed, "length").get;
  const lengthOf = (self) => apply(numbers, self, []);
  charge(typed, [
    "copyWithin", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex",
    "forEach", "includes", "indexOf", "join", "lastIndexOf", "map", "reduce", "reduceRight",
    "reverse", "set", "slice", "some", "toLocaleString", "toReversed", "with",
  ], (self) => lengthOf(self) * 4);
  const { sort: sortNumbers } = typed;
  /** Pieces of a large one are sorted, and then merged by the script. */
  function sortedNumbers(self, compare) {
    const length = lengthOf(self);
    if (compare !== undefined) {
      const isCalled = length > 1000 && typeof compare === "function";
      return sortNumbers.call(self, isCalled ? (a, b) => compare(a, b) : compare);
    }
    const piece = 1 << 16;
    for (let at = 0; at < length; at += piece) {
      spend(SLICE);
      sortNumbers.call(self.subarray(at, at + piece));
    }
    for (let width = piece; width < length; width *= 2) {
      for (let at = 0; at + width < length; at += 2 * width) {
        merge(self, at, at + width, min(at + 2 * width, length));
      }
    }
    return self;
  }
  /** Whether a number is sorted behind another: 0 behind -0, and what is no number last. */
  const isAfter = (a, b) =>
    a > b || (a === b && 1 / Number(b) < 1 / Number(a)) || (a !== a && b === b);
  function merge(self, start, middle, end) {
    const first = self.slice(start, middle);
    for (let [i, j, at] = [0, middle, start]; i < first.length; at++) {
      if (j < end && isAfter(first[i], self[j])) self[at] = self[j++];
      else self[at] = first[i++];
    }
  }
  replace(typed, {
    sort(compare) {
      return sortedNumbers(this, compare);
    },
    toSorted(compare) {
      if (compare !== undefined && typeof compare !== "function") {
        throw new TypeError("not a function");
      }
      lengthOf(this);
      const copy = construct(constructorOf(this), [this]);
      return sortedNumbers(copy, compare);
    },
  });
  const tag = getOwnPropertyDescriptor(typed, Symbol.toStringTag).get;
  const kinds = {};
  const TypedArray = getPrototypeOf(Uint8Array);
  for (const name of Reflect.ownKeys(globalThis)) {
    const kind = globalThis[name];
    if (typeof kind === "function" && getPrototypeOf(kind) === TypedArray) kinds[name] = kind;
  }
  function constructorOf(self) {
    return kinds[apply(tag, self, [])];
  }
  for (const name of Reflect.ownKeys(kinds)) {
    const original = kinds[name];
    inPlaceOf(original, function (...rest) {
      if (new.target === undefined) throw new TypeError("constructor requires 'new'");
      const from = rest[0];
      spend(50 + (typeof from === "number" ? from : isObject(from) ? from.length || 0 : 0));
      return construct(original, rest, new.target);
    });
  }
  const NativeBuffer = ArrayBuffer;
  inPlaceOf(NativeBuffer, function ArrayBuffer(...rest) {
    if (new.target === undefined) throw new TypeError("constructor requires 'new'");
    spend(50 + (typeof rest[0] === "number" ? rest[0] : 0));
    return construct(NativeBuffer, rest, new.target);
  });
  timed(TypedArray, ["from", "of"]);
  charge(Uint8Array.prototype, ["toBase64", "toHex"], (self) => lengthOf(self) * 4);
  charge(Uint8Array.prototype, ["setFromBase64", "setFromHex"], byText(4));
  charge(Uint8Array, ["fromBase64", "fromHex"], byText(4));
  const bytes = getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get;
  charge(ArrayBuffer.prototype, [
    "resize", "slice", "sliceToImmutable", "transfer", "transferToFixedLength",
    "transferToImmutable",
  ], (self) => apply(bytes, self, []));
  timed(SharedArrayBuffer.prototype, ["grow", "slice"]);

  // ---- iterators, sets and maps

  /** Goes on with an iterator in the script, where the engine asks. */
  const on = (self) => {
    if (!isObject(self) && typeof self !== "function") throw new TypeError("not an object");
    return { [Symbol.iterator]: () => self };
  };
  function listed(self) {
    const list = [];
    for (const value of on(self)) list[checkedLength(list.length)] = value;
    return list;
  }
  const callable = (callback) => {
    if (typeof callback !== "function") throw new TypeError("not a function");
    return callback;
  };
  const made = Iterator.prototype.map;
  /** An iterator with the methods of all, from a generator. */
  const helper = (self, generator) => made.call(generator, (value) => value);
  function count(value) {
    const number = Number(value);
    if (number !== number || number < 0) throw new RangeError("must be positive");
    return floor(number);
  }
  function* dropping(self, most) {
    let left = most;
    for (const value of on(self)) if (left > 0) left--; else yield value;
  }
  function* filtering(self, callback) {
    let at = 0;
    for (const value of on(self)) if (callback(value, at++)) yield value;
  }
  replace(Iterator.prototype, {
    every(callback) {
      let at = 0;
      callable(callback);
      for (const value of on(this)) if (!callback(value, at++)) return false;
      return true;
    },
    some(callback) {
      let at = 0;
      callable(callback);
      for (const value of on(this)) if (callback(value, at++)) return true;
      return false;
    },
    find(callback) {
      let at = 0;
      callable(callback);
      for (const value of on(this)) if (callback(value, at++)) return value;
      return undefined;
    },
    forEach(callback) {
      let at = 0;
      callable(callback);
      for (const value of on(this)) callback(value, at++);
    },
    includes(sought, skipped) {
      let left = skipped === undefined ? 0 : count(skipped);
      for (const value of on(this)) {
        if (left > 0) left--;
        else if (value === sought || (value !== value && sought !== sought)) return true;
      }
      return false;
    },
    join(separator) {
      return listed(this).join(separator);
    },
    reduce(callback, ...initial) {
      callable(callback);
      let [at, result, isThere] = [0, initial[0], initial.length > 0];
      for (const value of on(this)) {
        result = isThere ? callback(result, value, at) : value;
        isThere = true;
        at++;
      }
      if (!isThere) throw new TypeError("empty iterator");
      return result;
    },
    drop(most) {
      return helper(this, dropping(this, count(most)));
    },
    filter(callback) {
      return helper(this, filtering(this, callable(callback)));
    },
  });

  inPlaceOf(NativeSet, function Set(items) {
    if (new.target === undefined) throw new TypeError("constructor requires 'new'");
    const set = construct(NativeSet, [], new.target);
    if (items === undefined || items === null) return set;
    const add = set.add;
    for (const item of items) apply(add, set, [item]);
    return set;
  });
  const sizes = [NativeSet, Map].map((kind) => getOwnPropertyDescriptor(kind.prototype, "size").get);
  function isOwn(value) {
    for (const size of sizes) {
      try {
        spend(apply(size, value, []) * 100);
        return true;
      } catch {}
    }
    return false;
  }
  for (const name of [
    "difference", "intersection", "isDisjointFrom", "isSubsetOf", "isSupersetOf",
    "symmetricDifference", "union",
  ]) {
    const original = NativeSet.prototype[name];
    replace(NativeSet.prototype, {
      [name](other) {
        isOwn(this);
        // Anything else says itself what it has: its keys are taken here.
        if (isObject(other) && !isOwn(other)) {
          const keys = other.keys();
          const known = { size: other.size, has: (key) => other.has(key) };
          const list = listed(keys);
          known.keys = () => list.values();
          return apply(original, this, [known]);
        }
        return apply(original, this, [other]);
      },
    });
  }
  timed(NativeSet.prototype, ["forEach", "clear"]);
  timed(Map.prototype, ["forEach", "clear"]);
  for (const owner of [Map, Object]) {
    const original = owner.groupBy;
    replace(owner, {
      groupBy(items, callback) {
        const list = isPlain(items) ? arrayOf(items, 50) : items;
        callable(callback);
        return original.call(owner, list, (value, at) => callback(value, at));
      },
    });
  }
  timed(Promise, ["all", "allSettled", "any", "race"]);

  // ---- objects, JSON, numbers, code

  const given = (result) => {
    spend(200 + result.length * 60);
    return result;
  };
  for (const [owner, names] of [
    [Object, ["keys", "values", "entries", "getOwnPropertyNames", "getOwnPropertySymbols"]],
    [Reflect, ["ownKeys"]],
  ]) {
    for (const name of names) {
      const original = owner[name];
      replace(owner, { [name]: { [name]: (object) => given(original(object)) }[name] });
    }
  }
  timed(Object, [
    "assign", "create", "defineProperties", "freeze", "fromEntries", "getOwnPropertyDescriptors",
    "isFrozen", "isSealed", "seal",
  ]);
  timed(Reflect, ["apply", "construct"]);
  timed(Math, ["sumPrecise"]);
  const { parse, stringify } = JSON;
  replace(JSON, {
    parse(text, ...rest) {
      if (typeof text !== "string") text = `${text}`;
      spend(text.length * 20);
      return apply(parse, JSON, [text, ...rest]);
    },
    stringify(value, ...rest) {
      const text = apply(stringify, JSON, [value, ...rest]);
      spend(text === undefined ? 100 : 100 + text.length * 10);
      return text;
    },
  });

  const NativeBigInt = BigInt;
  inPlaceOf(NativeBigInt, function BigInt(value) {
    if (new.target !== undefined) throw new TypeError("not a constructor");
    if (isObject(value)) value = value.valueOf();
    if (isObject(value)) value = `${value}`;
    if (typeof value === "string") {
      if (value.length > DIGITS) throw new RangeError(`a BigInt of more than ${DIGITS} digits`);
      spend(100 + value.length * value.length / 40);
    }
    return NativeBigInt(value);
  });
  const wide = 1n << NativeBigInt(floor(DIGITS * 3.3));
  const { toString: digitsOf } = NativeBigInt.prototype;
  replace(NativeBigInt.prototype, {
    toString(radix) {
      const value = typeof this === "bigint" ? this : apply(NativeBigInt.prototype.valueOf, this, []);
      if (value > wide || value < -wide) {
        throw new RangeError(`a BigInt of more than ${DIGITS} digits`);
      }
      const result = radix === undefined ? digitsOf.call(value) : digitsOf.call(value, radix);
      spend(result.length * result.length / 40);
      return result;
    },
  });
  timed(BigInt, ["asIntN", "asUintN"]);

  /** Code from a text is compiled in one go. */
  function checkedCode(texts) {
    let length = 0;
    for (const text of texts) length += `${text}`.length;
    if (length > CODE) throw new RangeError(`code of more than ${CODE} characters`);
    spend(length * 500);
  }
  charge(globalThis, ["eval"], (self, rest) => {
    if (typeof rest[0] === "string") checkedCode(rest);
    return 0;
  });
  for (const sample of [
    function () {}, async function () {}, function* () {}, async function* () {},
  ]) {
    const original = getPrototypeOf(sample).constructor;
    const compiled = function (...texts) {
      texts = texts.map((text) => `${text}`);
      checkedCode(texts);
      return construct(original, texts, new.target ?? original);
    };
    const before = getOwnPropertyDescriptor(getPrototypeOf(sample), "constructor");
    inPlaceOf(original, compiled);
    defineProperty(getPrototypeOf(sample), "constructor", { ...before, value: compiled });
  }

  return spend;
});
