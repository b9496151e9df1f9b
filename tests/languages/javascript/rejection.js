// A promise that nobody waits for is an error.
console.log('before');
Promise.reject(new Error('nobody caught me'));
