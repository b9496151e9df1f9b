const s: string = 'e\u0301 Straße 日本';
console.log(s.length, [...s].length, s.normalize('NFC').length, s.toUpperCase());
console.log(new Date(1730000000000).toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' }));
