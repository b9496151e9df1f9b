const s = 'e\u0301 Straße 日本 👩‍💻';
console.log(s.length, [...s].length, Buffer.byteLength(s), s.normalize('NFC').length, s.toUpperCase());
console.log([...new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(s)].length);
const when = new Date(Date.UTC(2024, 9, 27, 0, 30));
for (const hours of [0, 1]) {
  const moment = new Date(when.getTime() + hours * 3600e3);
  console.log(moment.toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' }), moment.toISOString());
}
console.log(new Intl.NumberFormat('de-DE', { style: 'currency', currency: 'EUR' }).format(1234.5));
console.log(['ä', 'z', 'a'].sort(new Intl.Collator('sv').compare).join(''));
console.log(new Date(0).toString(), process.env.TZ);
