<?php
declare(strict_types=1);
enum Suit: string { case Hearts = 'H'; case Spades = 'S'; }
final class Card { public function __construct(public readonly Suit $suit, public readonly int $rank) {} }
function primes(int $max): Generator {
    $sieve = array_fill(0, $max + 1, true);
    for ($i = 2; $i <= $max; $i++) {
        if (!$sieve[$i]) continue;
        yield $i;
        for ($j = $i * $i; $j <= $max; $j += $i) $sieve[$j] = false;
    }
}
echo implode(' ', iterator_to_array(primes(50), false)), "\n";
$cards = [new Card(Suit::Spades, 2), new Card(Suit::Hearts, 9), new Card(Suit::Spades, 1)];
usort($cards, fn($a, $b) => [$a->suit->value, $a->rank] <=> [$b->suit->value, $b->rank]);
echo implode(', ', array_map(fn(Card $c) => $c->suit->name . $c->rank, $cards)), "\n";
echo match (true) { PHP_INT_MAX > 2 ** 40 => 'wide', default => 'narrow' }, "\n";
