// Pinyin for the eye: tone marks instead of numbers, and one tile per character.

const MARKS = { a: "āáǎà", e: "ēéěè", i: "īíǐì", o: "ōóǒò", u: "ūúǔù", ü: "ǖǘǚǜ" };
const MARKS_OF_CONSONANTS = { n: ["n̄", "ń", "ň", "ǹ"], m: ["m̄", "ḿ", "m̌", "m̀"] };
const SYLLABLE = /^([a-zü]+)([1-5])$/;
const HAN = /\p{Script=Han}/u;

/**
 * A syllable with its tone mark: hao3 is hǎo, lv4 is lǜ, dianr3 is diǎnr. What is no syllable stays as it is.
 *
 * The mark stands on a or e, on the o of ou, else on the last vowel (GB/T 16159); of 嗯 and 呣 on the consonant.
 */
export function withMark(syllable) {
  const [, letters, tone] = SYLLABLE.exec(syllable) || [];
  if (!letters) return syllable;
  const plain = letters.replace(/v/g, "ü");
  if (tone === "5") return plain;
  const place = [/[ae]/, /ou/, /[iouü](?=[^iouü]*$)/, /[nm]/].map((rule) => plain.search(rule)).find((found) => found >= 0);
  if (place === undefined) return plain;
  const marks = MARKS[plain[place]] ?? MARKS_OF_CONSONANTS[plain[place]];
  return plain.slice(0, place) + marks[Number(tone) - 1] + plain.slice(place + 1);
}

/**
 * Text cut into tiles, each with the syllable that is said there.
 *
 * @param {string} text Normalised: what is said is written in it.
 * @param {string[]} pinyin One entry per syllable; an English word stands as itself.
 * @returns {{text: string, pinyin: string}[]|null} Null where text and pinyin do not fit.
 */
export function tiles(text, pinyin) {
  const found = [];
  let next = 0;
  for (const [piece] of text.matchAll(/\p{Script=Han}|[A-Za-z][A-Za-z']*|[^]/gu)) {
    const syllable = pinyin[next];
    const last = found.at(-1);
    if (piece === "儿" && last && /[^e]r[1-5]$/.test(last.pinyin) && !/^er/.test(syllable || "")) {
      last.text += piece;
    } else if (HAN.test(piece) || (syllable !== undefined && syllable.toLowerCase() === piece.toLowerCase())) {
      if (syllable === undefined) return null;
      found.push({ text: piece, pinyin: syllable });
      next += 1;
    } else {
      found.push({ text: piece, pinyin: "" });
    }
  }
  return next === pinyin.length ? found : null;
}
