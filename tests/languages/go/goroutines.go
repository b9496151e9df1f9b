package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

func main() {
	jobs, results := make(chan int), make(chan int, 100)
	var workers sync.WaitGroup
	for i := 0; i < 8; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for j := range jobs {
				results <- j * j
			}
		}()
	}
	for i := 0; i < 100; i++ {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	close(results)
	sum := 0
	for r := range results {
		sum += r
	}
	fmt.Println(sum)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	select {
	case <-ctx.Done():
		fmt.Println(ctx.Err())
	case <-time.After(100 * time.Second):
		fmt.Println("late")
	}
	var once sync.Once
	var lock sync.Mutex
	n := 0
	var many sync.WaitGroup
	for i := 0; i < 10000; i++ {
		many.Add(1)
		go func() { defer many.Done(); once.Do(func() { n += 5 }); lock.Lock(); n++; lock.Unlock() }()
	}
	many.Wait()
	fmt.Println(n)
}
