const x: number = ;
console.log(x);
