// `amp_lessons.amp.errors.similarity` in JavaScript: plain words compared with plain words, by BM25.

const K1 = 1.2;
const B = 0.6;
const FEW_WORDS = 12;
const NAMING = 2;
const EXPLAINED = 0.5;
const BACKGROUND = "amp";
const CLOSE = 0.84;
const ENDINGS = ["ing", "ed", "er", "es", "s", "ly"];
const PHRASES = /mixed[ -]precision|speed[ -]up|grad(?:ient)?[ _]scaler|\bhalfs\b/g;
const ONE_WORD = { m: BACKGROUND, s: "speedup", g: "scaler", h: "halves" };

export function vocabulary({ stop, synonyms, topicStems, topic, subjects }) {
  const stops = new Set(stop);
  const forms = new Map();

  function form(word) {
    if (!forms.has(word)) forms.set(word, formOf(word));
    return forms.get(word);
  }
  function formOf(word) {
    if (stops.has(word) || word.length < 2 || /^\w*(error|exception|warning)$/.test(word)) return "";
    const stem = synonyms[stemOf(word)] ?? stemOf(word);
    return stops.has(stem) ? "" : (topicStems[stem] ?? stem);
  }
  function spelled(text) {
    const found = text.toLowerCase().replace(PHRASES, (phrase) => ONE_WORD[phrase[0]]).match(/[a-z]+\d*/g) ?? [];
    return found.map((word) => [word, form(word)]).filter(([, word]) => word);
  }
  return {
    spelled,
    tokens: (text) => spelled(text).map(([, word]) => word),
    stops,
    synonyms,
    topicStems,
    topic: new Set(topic),
    subjects: new Set(subjects),
  };
}

function stemOf(word) {
  const ending = ENDINGS.find((each) => word.endsWith(each) && word.length - each.length >= 3);
  let stem = ending ? word.slice(0, -ending.length) : word;
  if (stem.length > 3 && stem.at(-1) === stem.at(-2)) stem = stem.slice(0, -1);
  return stem.length > 3 && stem.endsWith("e") ? stem.slice(0, -1) : stem;
}

// Documents to compare queries with: each a list of parts, as pairs of a weight and a text.
export function indexOf(documents, vocabulary) {
  const counts = documents.map((parts) => weighted(parts, vocabulary));
  const names = documents.map((parts) => weighted(parts.filter(([weight]) => weight >= NAMING), vocabulary));
  const lengths = counts.map((each) => [...each.values()].reduce((a, b) => a + b, 0));
  const mean = lengths.reduce((a, b) => a + b, 0) / Math.max(lengths.length, 1);
  const there = new Map();
  for (const each of counts) for (const word of each.keys()) there.set(word, (there.get(word) ?? 0) + 1);
  const total = counts.length;
  const rarity = new Map([...there].map(([word, n]) => [word, Math.log(1 + (total - n + 0.5) / (n + 0.5))]));
  const rarest = Math.log(1 + (total + 0.5) / 0.5);

  // The words of a query, each once, with what was typed. Misspelt ones are put right.
  function query(text) {
    const words = new Map();
    for (const [typed, word] of vocabulary.spelled(text)) if (!words.has(word)) words.set(word, typed);
    const unknown = [...words.keys()].filter((word) => !rarity.has(word) && word.length >= 5);
    if (unknown.length > FEW_WORDS) return words;
    const known = [...rarity.keys(), ...Object.keys(vocabulary.synonyms), ...vocabulary.stops];
    for (const word of unknown) {
      const near = withTwoSwapped(word, known) ?? closest(word, known);
      if (!near) continue;
      const typed = words.get(word);
      words.delete(word);
      if (vocabulary.stops.has(near)) continue;
      const meant = vocabulary.synonyms[near] ?? near;
      const one = vocabulary.topicStems[meant] ?? meant;
      if (!words.has(one)) words.set(one, typed);
    }
    return words;
  }

  function compare(words) {
    const weights = new Map([...words.keys()].map((word) => [word, rarity.get(word) ?? rarest]));
    if (weights.has(BACKGROUND) && weights.size > 1) weights.set(BACKGROUND, weights.get(BACKGROUND) * 0.2);
    const sum = [...weights.values()].reduce((a, b) => a + b, 0) || 1;
    return counts.map((own, place) => {
      const shared = [...weights.keys()].filter((word) => own.has(word));
      const heldBack = K1 * (1 - B + (B * lengths[place]) / mean);
      let score = 0;
      let has = 0;
      for (const word of shared) {
        score += (weights.get(word) * own.get(word) * (K1 + 1)) / (own.get(word) + heldBack);
        has += weights.get(word) * (names[place].has(word) ? 1 : EXPLAINED);
      }
      return { score, share: has / sum, words: shared };
    });
  }
  return { query, compare };
}

function weighted(parts, vocabulary) {
  const counts = new Map();
  for (const [weight, text] of parts) {
    for (const word of vocabulary.tokens(text)) counts.set(word, (counts.get(word) ?? 0) + weight);
  }
  return counts;
}

function withTwoSwapped(word, known) {
  const swaps = new Set();
  for (let n = 0; n < word.length - 1; n += 1) {
    swaps.add(word.slice(0, n) + word[n + 1] + word[n] + word.slice(n + 2));
  }
  return known.find((each) => swaps.has(each));
}

// `difflib.get_close_matches(word, known, n=1)`.
function closest(word, known) {
  let best = null;
  for (const each of known) {
    const most = (2 * Math.min(word.length, each.length)) / (word.length + each.length);
    if (most < CLOSE) continue;
    const ratio = (2 * matching(each, word)) / (word.length + each.length);
    if (ratio >= CLOSE && (!best || ratio > best[0] || (ratio === best[0] && each > best[1]))) best = [ratio, each];
  }
  return best?.[1];
}

// How many letters `difflib.SequenceMatcher` matches.
function matching(a, b) {
  let [from, to, size] = [0, 0, 0];
  for (let i = 0; i < a.length; i += 1) {
    for (let j = 0; j < b.length; j += 1) {
      let n = 0;
      while (i + n < a.length && j + n < b.length && a[i + n] === b[j + n]) n += 1;
      if (n > size) [from, to, size] = [i, j, n];
    }
  }
  if (!size) return 0;
  return size + matching(a.slice(0, from), b.slice(0, to)) + matching(a.slice(from + size), b.slice(to + size));
}
