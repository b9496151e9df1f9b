package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

func main() {
	s := "Straße 日本"
	fmt.Println(len(s), utf8.RuneCountInString(s), strings.ToUpper(s))
	for i, r := range "aé日" {
		fmt.Print(i, ":", string(r), " ")
	}
	fmt.Println()
	for _, zone := range []string{"Europe/Berlin", "Asia/Kolkata"} {
		l, err := time.LoadLocation(zone)
		if err != nil {
			panic(err)
		}
		fmt.Println(time.Unix(1730000000, 0).In(l).Format(time.RFC3339))
	}
}
