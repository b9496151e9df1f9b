package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/template"
)

func main() {
	re := regexp.MustCompile(`(?m)^(\S+) ERROR (.+) \(code=(\d+)\)$`)
	for _, m := range re.FindAllStringSubmatch("d1 ERROR disk full (code=28)\nd2 INFO ok\nd3 ERROR net (code=110)", -1) {
		fmt.Println(m[1], m[2], m[3])
	}
	fmt.Println(regexp.MustCompile(`(\w+)@(\w+)`).ReplaceAllString("ann@home", "$2 at $1"))
	template.Must(template.New("t").Parse("{{range .}}<{{.}}>{{end}}\n")).Execute(os.Stdout, strings.Fields(" a b  c "))
}
