package main

import "fmt"

func main() {
	blocks := make([][]byte, 0, 300)
	for i := 0; i < 300; i++ {
		b := make([]byte, 1<<20)
		for j := range b {
			b[j] = byte(i)
		}
		blocks = append(blocks, b)
	}
	fmt.Println(len(blocks), blocks[299][0])
	for i := 0; i < 2000; i++ { // garbage: the collector knows the limit
		_ = make([]byte, 1<<20)
	}
	fmt.Println(len(blocks))
}
