package main

import "example.org/some/module"

func main() { module.Do() }
