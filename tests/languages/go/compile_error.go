package main

import (
	"fmt"
	"os"
)

func main() {
	var n int = "text"
	fmt.Println(n)
}
