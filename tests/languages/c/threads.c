#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int fast;
static int slow;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *arg)
{
	for (int i = 0; i < 10000; i++) {
		atomic_fetch_add(&fast, 1);
		pthread_mutex_lock(&lock);
		slow++;
		pthread_mutex_unlock(&lock);
	}
	return arg;
}

int main(void)
{
	pthread_t t[16];
	for (long i = 0; i < 16; i++)
		if (pthread_create(&t[i], NULL, work, (void *)i))
			return 1;
	long sum = 0;
	for (int i = 0; i < 16; i++) {
		void *r;
		pthread_join(t[i], &r);
		sum += (long)r;
	}
	printf("%d %d %ld\n", fast, slow, sum);
	return 0;
}
