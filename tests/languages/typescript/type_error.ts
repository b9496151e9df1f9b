const count: number = 1;
const text: string = count;
console.log(text);
