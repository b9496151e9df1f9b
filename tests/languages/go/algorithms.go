package main

import (
	"container/heap"
	"fmt"
	"math/big"
	"sort"
)

type queue []int

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i] < q[j] }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(int)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

func Map[T, U any](in []T, f func(T) U) []U {
	out := make([]U, 0, len(in))
	for _, x := range in {
		out = append(out, f(x))
	}
	return out
}

func main() {
	q := &queue{5, 2, 8}
	heap.Init(q)
	heap.Push(q, 1)
	for q.Len() > 0 {
		fmt.Print(heap.Pop(q), " ")
	}
	fmt.Println(Map([]int{1, 2, 3}, func(i int) string { return fmt.Sprint(i * i) }))
	fmt.Println(new(big.Int).MulRange(1, 30))
	words := []string{"pear", "fig", "apple"}
	sort.Slice(words, func(i, j int) bool { return len(words[i]) < len(words[j]) })
	fmt.Println(words)
}
