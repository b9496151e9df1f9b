package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

func main() {
	dir, _ := os.MkdirTemp("", "s")
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		panic(err)
	}
	go func() {
		c, _ := l.Accept()
		line, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "got %s", line)
		c.Close()
	}()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(c, "hello")
	answer, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(answer)
}
