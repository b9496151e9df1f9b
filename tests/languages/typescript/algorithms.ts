// Generics, an interface, a discriminated union, an enum, a decorator-free class hierarchy.
interface Comparable<T> { compareTo(other: T): number }
enum Suit { Clubs, Diamonds, Hearts, Spades }
class Card implements Comparable<Card> {
  constructor(readonly suit: Suit, private readonly rank: number) {}
  compareTo(other: Card): number { return this.suit - other.suit || this.rank - other.rank; }
  toString(): string { return `${Suit[this.suit]} ${this.rank}`; }
}
function insertionSort<T extends Comparable<T>>(items: T[]): T[] {
  const sorted: T[] = [];
  for (const item of items) {
    let i = sorted.length;
    while (i > 0 && sorted[i - 1].compareTo(item) > 0) i--;
    sorted.splice(i, 0, item);
  }
  return sorted;
}
console.log(insertionSort([new Card(Suit.Spades, 2), new Card(Suit.Clubs, 9), new Card(Suit.Spades, 1)]).join(', '));
type Shape = { kind: 'circle'; radius: number } | { kind: 'square'; side: number };
const area = (shape: Shape): number => shape.kind === 'circle' ? Math.PI * shape.radius ** 2 : shape.side ** 2;
const total: number = ([{ kind: 'circle', radius: 1 }, { kind: 'square', side: 2 }] as Shape[]).reduce((sum, s) => sum + area(s), 0);
console.log(total.toFixed(3));
