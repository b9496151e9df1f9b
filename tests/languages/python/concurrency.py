# Threads, processes and coroutines.
import asyncio, concurrent.futures, multiprocessing, queue, threading

def square(n):
    return n * n

async def later(n):
    await asyncio.sleep(0.01 * n)
    return n

async def gather():
    return await asyncio.gather(*(later(n) for n in (3, 1, 2)))

if __name__ == "__main__":
    lock, total = threading.Lock(), 0
    def add():
        global total
        for _ in range(1000):
            with lock:
                total += 1
    threads = [threading.Thread(target=add) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(total)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(list(pool.map(square, range(5))))
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, range(5)))
    results = multiprocessing.Queue()
    process = multiprocessing.Process(target=results.put, args=("from a child",))
    process.start()
    print(results.get(timeout=100))
    process.join()
    print(asyncio.run(gather()))
