package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	sort := exec.Command("sort", "-rn")
	sort.Stdin = strings.NewReader("3\n10\n2\n")
	out, err := sort.Output()
	fmt.Printf("%q %v\n", out, err)
	err = exec.Command("sh", "-c", "exit 7").Run()
	var exit *exec.ExitError
	fmt.Println(errors.As(err, &exit), exit.ExitCode())
	sleep := exec.Command("sleep", "60")
	sleep.Start()
	sleep.Process.Signal(syscall.SIGTERM)
	fmt.Println(sleep.Wait())
	_, err = exec.LookPath("no-such-command-anywhere")
	fmt.Println(err)
}
