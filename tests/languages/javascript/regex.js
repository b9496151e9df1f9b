const text = 'ERROR 2024-05-01 disk; INFO 2024-05-02 ok; ERROR 2024-05-03 net';
for (const { groups } of text.matchAll(/(?<level>ERROR) (?<day>[\d-]+) (?<what>\w+)/g)) console.log(groups.day, groups.what);
console.log('naïve café'.replace(/\p{L}+/gu, (word) => word[0].toUpperCase() + word.slice(1)));
console.log('price: 42€ 7€'.match(/\d+(?=€)/g), /(?<!\d)7/.test('17 7'));
