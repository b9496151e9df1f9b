package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
)

type row struct {
	Name string `json:"name"`
	Qty  int    `json:"qty,omitempty"`
}

func main() {
	records, err := csv.NewReader(strings.NewReader("name,qty\n\"Smith, J.\",3\n\"says \"\"hi\"\"\",0\n")).ReadAll()
	if err != nil {
		panic(err)
	}
	var rows []row
	for _, r := range records[1:] {
		var qty int
		fmt.Sscan(r[1], &qty)
		rows = append(rows, row{r[0], qty})
	}
	text, _ := json.MarshalIndent(rows, "", " ")
	fmt.Println(string(text))
	var back []row
	fmt.Println(json.Unmarshal(text, &back), back[0].Qty)
	fmt.Println(json.Unmarshal([]byte(`{"name": 1}`), &back) != nil)
}
