package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

func main() {
	http.HandleFunc("/upper", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, strings.ToUpper(string(body)))
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(l, nil)
	client := &http.Client{Transport: &http.Transport{}}
	for _, path := range []string{"/upper", "/none"} {
		r, err := client.Post("http://"+l.Addr().String()+path, "text/plain", strings.NewReader("grüße"))
		if err != nil {
			panic(err)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.StatusCode, strings.TrimSpace(string(body)))
	}
}
