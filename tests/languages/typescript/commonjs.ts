// Written as for CommonJS: require, __dirname, require.main.
const os = require('os');
const path = require('path');
function main(): void {
  console.log(typeof os.cpus().length, path.basename(__filename), path.isAbsolute(__dirname));
}
if (require.main === module) main();
