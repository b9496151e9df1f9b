package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	fmt.Printf("%q %s\n", os.Args[1:], os.Getenv("GREETING"))
	sum := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n int
		fmt.Sscan(in.Text(), &n)
		sum += n
	}
	fmt.Println(sum)
	os.Exit(4)
}
