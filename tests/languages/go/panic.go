package main

import "fmt"

func inner(values []int, i int) int {
	return values[i]
}

func main() {
	fmt.Println("before")
	fmt.Println(inner([]int{1, 2, 3}, 3))
}
